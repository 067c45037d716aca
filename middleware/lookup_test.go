package once_test

import (
	"context"
	"errors"
	"testing"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// inspectable is a fake that shows its claims.
type inspectable struct{ *fakeStore }

func (s inspectable) Lookup(_ context.Context, consumer, key string) (store.Found, bool, error) {
	if !s.has(consumer, key) {
		return store.Found{}, false, nil
	}
	return store.Found{Consumer: consumer, Key: key}, true, nil
}

func (s inspectable) Forget(_ context.Context, consumer, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.claims[fakeKey{consumer, key}]
	delete(s.claims, fakeKey{consumer, key})
	return ok, nil
}

func TestForget_LetsTheMessageRunAgain(t *testing.T) {
	t.Parallel()
	s := inspectable{newSQLiteFake(t)}
	c := quick()
	c.Handlers = map[string]once.HandlerConfig{"h": {Consumer: "old/name"}}
	g := newGuard(t, s, c)
	h := handle(g, effectOf)
	for range 2 {
		if err := h(deliver(t, "m1", "x")); err != nil {
			t.Fatal(err)
		}
	}
	if found, ok, err := g.Lookup(t.Context(), "h", "m1"); !ok || err != nil || found.Consumer != "old/name" {
		t.Errorf("lookup: %+v, %v, %v", found, ok, err)
	}
	if ok, err := g.Forget(t.Context(), "h", "m1"); !ok || err != nil {
		t.Errorf("forget: %v, %v", ok, err)
	}
	if ok, err := g.Forget(t.Context(), "h", "m1"); ok || err != nil {
		t.Errorf("forget again: %v, %v", ok, err)
	}
	if _, ok, _ := g.Lookup(t.Context(), "h", "m1"); ok {
		t.Error("the claim is still there")
	}
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 2)
}

func TestLookup_ErrorsSayWhy(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	if _, _, err := g.Lookup(t.Context(), "h", "m1"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if _, err := g.Forget(t.Context(), "", "m1"); !errors.Is(err, once.ErrConfig) {
		t.Errorf("got %v", err)
	}
}

package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestOutcome_NestedGuardDo(t *testing.T) {
	t.Parallel()
	s := newFake()
	c := quick()
	c.Limit = 1 // the inner attempt must not wait for the outer one's slot
	g := newGuard(t, s, c)
	h := handle(g, func(msg *message.Message) error {
		_, err := g.Do(msg.Context(), "inner", "k", func(context.Context, *sqlx.Tx) error { return nil })
		return err
	})
	err := h(deliver(t, "m1", "x"))
	if !errors.Is(err, store.ErrNested) || !once.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestW11_GuardTwiceIsErrNested(t *testing.T) {
	t.Parallel()
	s := newFake()
	c := quick()
	c.Limit = 1
	g := newGuard(t, s, c)
	h := g.Middleware(g.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil }))
	_, err := h(deliver(t, "m1", "x"))
	if !errors.Is(err, store.ErrNested) || !errors.Is(err, once.ErrChain) {
		t.Errorf("got %v", err)
	}
	if once.Poison(err) {
		t.Error("good messages would be thrown away for a wrong chain")
	}
}

func TestW11_TwoGuardsOnOneStoreIsErrNested(t *testing.T) {
	t.Parallel()
	s := newFake()
	outer, inner := newGuard(t, s, quick()), newGuard(t, s, quick())
	h := outer.Middleware(inner.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil }))
	if _, err := h(deliver(t, "m1", "x")); !errors.Is(err, store.ErrNested) {
		t.Errorf("got %v", err)
	}
}

func TestOutcome_AttemptOnAnotherStoreIsAllowed(t *testing.T) {
	t.Parallel()
	outer, inner := newGuard(t, newFake(), quick()), newGuard(t, newFake(), quick())
	h := handle(outer, func(msg *message.Message) error {
		mine, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		_, err = inner.Do(msg.Context(), "inner", "k", func(ctx context.Context, tx *sqlx.Tx) error {
			got, err := once.Tx(ctx)
			if got != tx || got == mine {
				t.Error("the innermost transaction is not found")
			}
			return err
		})
		if got, _ := once.Tx(msg.Context()); got != mine {
			t.Error("the outer transaction is not found again")
		}
		return err
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
}

// wrapper hides from the guard which store it is, not from the store.
type wrapper struct{ *fakeStore }

func TestW11_TheStoreNoticesWhatTheGuardCannot(t *testing.T) {
	t.Parallel()
	s := newFake()
	outer, inner := newGuard(t, s, quick()), newGuard(t, wrapper{s}, quick())
	chain := outer.Middleware(inner.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil }))
	if _, err := chain(deliver(t, "m1", "x")); !errors.Is(err, store.ErrNested) || once.Poison(err) {
		t.Errorf("middleware: got %v", err)
	}
	_, err := outer.Do(t.Context(), "hook", "k", func(ctx context.Context, _ *sqlx.Tx) error {
		_, err := inner.Do(ctx, "hook", "k", nil)
		return err
	})
	if !errors.Is(err, store.ErrNested) || !once.IsPermanent(err) {
		t.Errorf("Do: got %v", err)
	}
}

// forgetful is a store that does not hand on the context.
type forgetful struct{ *fakeStore }

func (s forgetful) Do(ctx context.Context, c store.Claim, fn store.Func) (store.Result, error) {
	return s.fakeStore.Do(ctx, c, func(_ context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		return fn(context.Background(), tx)
	})
}

func TestTx_WithAStoreThatForgetsTheContext(t *testing.T) {
	t.Parallel()
	h := handle(newGuard(t, forgetful{newFake()}, quick()), func(msg *message.Message) error {
		_, err := once.Tx(msg.Context())
		return err
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
}

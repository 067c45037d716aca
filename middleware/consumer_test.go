package once_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

func nothing(*message.Message) error { return nil }

func TestConsumer_OneUnderTwoTopicsIsRefused(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	h := handle(g, nothing)
	if err := h(message.NewMessageWithContext(handlerContext(t, "h", "t"), "1", nil)); err != nil {
		t.Fatal(err)
	}
	err := h(message.NewMessageWithContext(handlerContext(t, "h", "other"), "1", nil))
	if !errors.Is(err, once.ErrConfig) || !once.IsTransient(err) || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
}

func TestConsumer_SameHandlerInARestartedRouterIsFine(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	for range 2 {
		if err := handle(g, nothing)(deliver(t, "1", "")); err != nil {
			t.Error(err)
		}
	}
}

func TestConsumer_WithoutARouterIsRefused(t *testing.T) {
	t.Parallel()
	err := handle(newGuard(t, untouched(t), quick()), nothing)(message.NewMessage("1", nil))
	if !errors.Is(err, once.ErrConfig) || !once.IsTransient(err) || !strings.Contains(err.Error(), "Guard.Do") {
		t.Errorf("got %v", err)
	}
}

func TestB02_TwoHandlersOfOneTopicBothRun(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, c).Plugin)
	var both sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"a", "b"} {
		r.AddConsumerHandler(name, "t", b.channel, func(msg *message.Message) error {
			_ = once.AfterCommit(msg.Context(), func(context.Context) { both.Done() })
			return effectOf(msg)
		})
	}
	b.run(t, r)
	b.publish(t, "t", message.NewMessage("m1", nil))
	both.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 2)
	if !s.has("svc/a", "m1") || !s.has("svc/b", "m1") {
		t.Errorf("claims are %v", s.claims)
	}
	seen.wantOutcomes(t, once.Processed, once.Processed)
}

func TestB02_OneHandlerNameInTwoServices(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	for _, service := range []string{"a", "b"} {
		c := quick()
		c.Service = service
		if err := handle(newGuard(t, s, c), effectOf)(deliver(t, "m1", "")); err != nil {
			t.Error(err)
		}
	}
	s.wantEffects(t, 2)
}

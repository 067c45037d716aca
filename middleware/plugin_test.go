package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestPlugin_UnknownHandlerNameKeepsTheRouterFromRunning(t *testing.T) {
	t.Parallel()
	c := quick()
	c.Handlers = map[string]once.HandlerConfig{"typo": {}, "h": {}}
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, newFake(), c).Plugin)
	r.AddConsumerHandler("h", "t", b.channel, nothing)
	err := r.Run(t.Context())
	if !errors.Is(err, once.ErrConfig) || !strings.Contains(err.Error(), `"typo"`) || strings.Contains(err.Error(), `"h"`) {
		t.Errorf("got %v", err)
	}
}

func TestPlugin_HandlerNameThatMakesNoConsumer(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, newFake(), quick()).Plugin)
	r.AddConsumerHandler(strings.Repeat("h", 252), "t", b.channel, nothing)
	if err := r.Run(t.Context()); !errors.Is(err, once.ErrConfig) {
		t.Errorf("got %v", err)
	}
}

func TestPlugin_TwiceInOneRouter(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(g.Plugin, g.Plugin)
	r.AddConsumerHandler("h", "t", b.channel, nothing)
	if err := r.Run(t.Context()); !errors.Is(err, once.ErrConfig) || !strings.Contains(err.Error(), "once") {
		t.Errorf("got %v", err)
	}
}

func TestPlugin_StoreThatIsAwayKeepsTheRouterFromRunning(t *testing.T) {
	t.Parallel()
	s := newFull()
	s.verify = func(context.Context) ([]store.Finding, error) { return nil, store.ErrSchema }
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, quick()).Plugin)
	r.AddConsumerHandler("h", "t", b.channel, nothing)
	if err := r.Run(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("got %v", err)
	}
}

func TestPlugin_HandlerWithoutAPublisher(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, quick()).Plugin)
	done := make(chan struct{})
	r.AddHandler("h", "t", b.channel, "", nil, func(msg *message.Message) ([]*message.Message, error) {
		return nil, errors.Join(effectOf(msg), once.AfterCommit(msg.Context(), func(context.Context) { close(done) }))
	})
	b.run(t, r)
	b.publish(t, "t", message.NewMessage("m1", nil))
	within(t, done, "the message")
	s.wantEffects(t, 1)
}

func TestPlugin_GuardsHandlersThatAreAddedLater(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, quick()).Plugin)
	r.AddConsumerHandler("first", "t", b.channel, nothing)
	b.run(t, r)
	done := make(chan struct{})
	r.AddConsumerHandler("later", "t2", b.channel, func(msg *message.Message) error {
		return errors.Join(effectOf(msg), once.AfterCommit(msg.Context(), func(context.Context) { close(done) }))
	})
	if err := r.RunHandlers(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "t2", message.NewMessage("m1", nil))
	within(t, done, "the message")
	if !s.has("svc/later", "m1") {
		t.Error("no claim")
	}
}

package once_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

func TestB36_PanicGoesOnWithValueAndStack(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, c), func(msg *message.Message) error {
		_ = effectOf(msg)
		return explode()
	})
	msg := deliver(t, "m1", "x")
	before := msg.Context()
	func() {
		defer func() {
			if p := recover(); p != any(errBoom) {
				t.Errorf("recovered %v", p)
			}
			buf := make([]byte, 1<<16)
			if stack := string(buf[:runtime.Stack(buf, false)]); !strings.Contains(stack, "middleware_test.explode(") {
				t.Errorf("the stack of the panic is lost:\n%s", stack)
			}
		}()
		_ = h(msg)
		t.Error("the panic did not go on")
	}()
	if settled(msg) {
		t.Error("the guard settled the message")
	}
	if msg.Context() != before {
		t.Error("the message's context is not what it was")
	}
	s.wantEffects(t, 0)
	seen.wantOutcomes(t, once.Panicked)
}

var errBoom = errors.New("boom")

//go:noinline
func explode() error { panic(errBoom) }

func TestW02_GoexitIsRolledBackAndNacked(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, c), func(msg *message.Message) error {
		_ = effectOf(msg)
		runtime.Goexit()
		return nil
	})
	msg := deliver(t, "m1", "x")
	before := msg.Context()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h(msg)
	}()
	within(t, done, "Goexit")
	within(t, msg.Nacked(), "nack")
	if msg.Context() != before {
		t.Error("the message's context is not what it was")
	}
	s.wantEffects(t, 0)
	seen.wantOutcomes(t, once.Exited)
}

func TestW02_GoexitInARouter_TheNextDeliveryWorks(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, quick()).Plugin)
	var n atomic.Int32
	done := make(chan struct{})
	r.AddConsumerHandler("h", "t", b.channel, func(msg *message.Message) error {
		if err := effectOf(msg); err != nil {
			return err
		}
		if n.Add(1) == 1 {
			runtime.Goexit()
		}
		return once.AfterCommit(msg.Context(), func(context.Context) { close(done) })
	})
	b.run(t, r)
	b.publish(t, "t", message.NewMessage("m1", nil))
	within(t, done, "the second delivery")
	s.wantEffects(t, 1)
}

func TestB36_TwentyPanicsAndGoexitsLeakNothing(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	s.db.SetMaxOpenConns(2)
	g := newGuard(t, s, quick())
	h := handle(g, func(msg *message.Message) error {
		if err := effectOf(msg); err != nil {
			return err
		}
		switch msg.UUID[0] {
		case 'p':
			panic("boom")
		case 'g':
			runtime.Goexit()
		}
		return nil
	})
	for i := range 20 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_ = h(deliver(t, fmt.Sprintf("%c%d", "pg"[i%2], i), "x"))
		}()
		within(t, done, "a broken handler")
	}
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
	if n := s.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
}

func settled(msg *message.Message) bool {
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
	default:
		return false
	}
	return true
}

func TestW02_GoexitInAHookIsCountedAsWhatItIs(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, c), func(msg *message.Message) error {
		_ = once.AfterCommit(msg.Context(), func(context.Context) { runtime.Goexit() })
		return effectOf(msg)
	})
	msg := deliver(t, "m1", "x")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h(msg)
	}()
	within(t, done, "Goexit")
	within(t, msg.Nacked(), "nack") // the redelivery is a duplicate
	s.wantEffects(t, 1)
	seen.wantOutcomes(t, once.Processed)
}

package once_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

func TestBackoff_GrowsPerMessageWithJitter(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		g := newGuard(t, newFake(), once.Config{Service: "svc", PurgeEvery: -1, Observer: seen})
		fail := true
		h := handle(g, func(*message.Message) error {
			if fail {
				return errBusiness
			}
			return nil
		})
		try := func(id string) time.Duration {
			began := time.Now()
			_ = h(message.NewMessageWithContext(ctx, id, nil))
			return time.Since(began)
		}
		want := 100 * time.Millisecond
		for n := range 12 {
			if took := try("a"); took < want/2 || took > want*3/2 {
				t.Errorf("failure %d: %s, want %s ± 50 %%", n+1, took, want)
			}
			want = min(2*want, 30*time.Second)
		}
		if took := try("b"); took > 150*time.Millisecond {
			t.Errorf("another message waits %s", took)
		}
		fail = false
		if took := try("a"); took != 0 {
			t.Errorf("a success waits %s", took)
		}
		events := eventsOf[once.AttemptEnded](seen)
		if e := events[11]; e.Failures != 12 || e.Backoff < 15*time.Second {
			t.Errorf("the event is %+v", e)
		}
	})
}

func TestBackoff_IsForgottenBySuccess(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		c := quick()
		c.Observer = seen
		g := newGuard(t, newFake(), c)
		for i := range 6 {
			_ = handle(g, func(*message.Message) error {
				if i != 2 {
					return errBusiness
				}
				return once.ErrSkip
			})(message.NewMessageWithContext(ctx, "a", nil))
		}
		var failures []int
		for _, e := range eventsOf[once.AttemptEnded](seen) {
			failures = append(failures, e.Failures)
		}
		if got := fmt.Sprint(failures); got != "[1 2 0 1 2 3]" {
			t.Errorf("failures %s", got)
		}
	})
}

func TestBackoff_RemembersABoundedNumber(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	c.FailingKeys = 2
	h := handle(newGuard(t, newFake(), c), func(*message.Message) error { return errBusiness })
	for _, id := range []string{"a", "b", "a", "c", "a", "b"} { // c pushes b out, not a
		_ = h(message.NewMessageWithContext(ctx, id, nil))
	}
	var failures []int
	for _, e := range eventsOf[once.AttemptEnded](seen) {
		failures = append(failures, e.Failures)
	}
	if got := fmt.Sprint(failures); got != "[1 1 2 1 3 1]" {
		t.Errorf("failures %s", got)
	}
}

func TestBackoff_StaysWithinHalfOfTheRedelivery(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), once.Config{Service: "svc", PurgeEvery: -1, Redelivery: 10 * time.Second, Observer: once.NopObserver{}})
		for range 12 {
			began := time.Now()
			_ = handle(g, func(*message.Message) error { return errBusiness })(message.NewMessageWithContext(ctx, "a", nil))
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		}
	})
}

func TestBackoff_EndsWithTheMessagesContext(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), once.Config{Service: "svc", BackoffMin: time.Hour, PurgeEvery: -1, Observer: once.NopObserver{}})
		ctx, cancel := context.WithCancel(root)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_ = handle(g, func(*message.Message) error { return errBusiness })(message.NewMessageWithContext(ctx, "a", nil))
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestBackoff_MessagesWithoutAKeyDoNotSlowEachOther(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	h := handle(newGuard(t, newFake(), c), nothing)
	for _, payload := range []string{"a", "b", "a"} {
		_ = h(deliver(t, "", payload))
	}
	e := eventsOf[once.AttemptEnded](seen)
	if e[0].Failures != 1 || e[1].Failures != 1 || e[2].Failures != 2 {
		t.Errorf("failures %d %d %d", e[0].Failures, e[1].Failures, e[2].Failures)
	}
}

func TestW07_ANackedMessageIsNoStorm(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, newFake(), once.Config{Service: "svc", PurgeEvery: -1, Observer: once.NopObserver{}}).Plugin)
	var n atomic.Int32
	second := make(chan struct{})
	r.AddConsumerHandler("h", "t", b.channel, func(*message.Message) error {
		if n.Add(1) == 3 {
			close(second)
		}
		return errBusiness
	})
	b.run(t, r)
	began := time.Now()
	b.publish(t, "t", message.NewMessage("m1", nil))
	within(t, second, "the third delivery")
	if took := time.Since(began); took < 150*time.Millisecond { // 50 ms and 100 ms at least
		t.Errorf("three deliveries in %s", took)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestW07_APanicIsNoStormEither(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), once.Config{Service: "svc", PurgeEvery: -1, Observer: once.NopObserver{}})
		began := time.Now()
		func() {
			defer func() { _ = recover() }()
			_ = handle(g, func(*message.Message) error { panic("boom") })(message.NewMessageWithContext(ctx, "a", nil))
		}()
		if took := time.Since(began); took < 50*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

func TestB50_AFailingMessageDoesNotKeepTheSlot(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), once.Config{Service: "svc", Limit: 1, BackoffMin: time.Minute, PurgeEvery: -1, Observer: once.NopObserver{}})
		h := handle(g, func(msg *message.Message) error {
			if msg.UUID == "bad" {
				return errBusiness
			}
			return nil
		})
		var all sync.WaitGroup
		all.Go(func() { _ = h(message.NewMessageWithContext(ctx, "bad", nil)) })
		synctest.Wait()
		began := time.Now()
		if err := h(message.NewMessageWithContext(ctx, "good", nil)); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		all.Wait()
	})
}

package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// outage is a store that is away until it comes back.
func outage(d time.Duration) *fakeStore {
	s := newFake()
	back := time.Now().Add(d)
	s.before = func(context.Context, store.Claim) error {
		if time.Now().Before(back) {
			return store.ErrUnavailable
		}
		return nil
	}
	return s
}

func TestHold_AnOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		g := newGuard(t, outage(10*time.Second), once.Config{Service: "svc", PurgeEvery: -1, Observer: seen})
		ran := 0
		if err := handle(g, func(*message.Message) error { ran++; return nil })(message.NewMessageWithContext(ctx, "m1", nil)); err != nil {
			t.Fatal(err)
		}
		if ran != 1 {
			t.Errorf("the handler ran %d times", ran)
		}
		held := eventsOf[once.AttemptHeld](seen)
		if len(held) < 5 || len(held) > 12 {
			t.Errorf("held %d times", len(held))
		}
		if e := eventsOf[once.AttemptEnded](seen); len(e) != 1 || e[0].Held < 10*time.Second || e[0].Took < e[0].Held {
			t.Errorf("the end is %+v", e)
		}
	})
}

func TestHold_IsBounded(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	for name, c := range map[string]struct {
		redelivery time.Duration
		most       time.Duration
	}{
		"by 30 s":                          {0, 30 * time.Second},
		"by half of the broker's patience": {20 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, outage(time.Hour), once.Config{Service: "svc", PurgeEvery: -1, Redelivery: c.redelivery, Observer: once.NopObserver{}})
				began := time.Now()
				err := handle(g, nothing)(message.NewMessageWithContext(ctx, "m1", nil))
				if !errors.Is(err, store.ErrUnavailable) || !once.IsTransient(err) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != c.most {
					t.Errorf("it took %s, want %s", took, c.most)
				}
			})
		})
	}
}

func TestHold_ASlotIsFreeMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(_ context.Context, c store.Claim) error {
			if c.Key == "held" {
				return store.ErrUnavailable
			}
			return nil
		}
		g := newGuard(t, s, once.Config{Service: "svc", Limit: 1, PurgeEvery: -1, Observer: once.NopObserver{}})
		h := handle(g, nothing)
		held := make(chan error)
		go func() { held <- h(message.NewMessageWithContext(ctx, "held", nil)) }()
		synctest.Wait()
		began := time.Now()
		if err := h(message.NewMessageWithContext(ctx, "m1", nil)); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := <-held; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the held one: %v", err)
		}
	})
}

func TestHold_EndsWithTheMessagesContext(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		g := newGuard(t, outage(time.Hour), once.Config{Service: "svc", PurgeEvery: -1, Observer: seen})
		ctx, cancel := context.WithCancel(root)
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		err := handle(g, nothing)(message.NewMessageWithContext(ctx, "m1", nil))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnavailable) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		seen.wantOutcomes(t, once.Cancelled)
	})
}

func TestHold_NotOnceTheHandlerRan(t *testing.T) {
	t.Parallel()
	ran := 0
	err := inAttempt(t, newFake(), func(context.Context) error {
		ran++
		return store.ErrUnavailable // of another store
	})
	if ran != 1 || !once.IsTransient(err) {
		t.Errorf("it ran %d times: %v", ran, err)
	}
}

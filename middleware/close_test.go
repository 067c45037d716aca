package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

func TestClose_ClosesTheStoreOnceAndIsIdempotent(t *testing.T) {
	t.Parallel()
	s := newFull()
	s.closeErr = errBusiness
	g, err := once.New(s, quick())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Close(t.Context()); !errors.Is(err, errBusiness) {
			t.Errorf("got %v", err)
		}
	}
	if n := s.closed.Load(); n != 1 {
		t.Errorf("the store was closed %d times", n)
	}
}

func TestClose_LaterAttemptsAreTransientAndDoNotSpin(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		g := newGuard(t, newFake(), once.Config{Service: "svc", Observer: seen})
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := handle(g, nothing)(message.NewMessageWithContext(ctx, "m1", nil))
		if !errors.Is(err, once.ErrClosed) || !once.IsTransient(err) || !strings.Contains(err.Error(), "svc/h") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != once.DefaultBackoffMin {
			t.Errorf("it took %s", took)
		}
		if _, err := g.Do(t.Context(), "hook", "k", nil); !errors.Is(err, once.ErrClosed) {
			t.Errorf("Do: %v", err)
		}
		if err := g.Start(t.Context()); !errors.Is(err, once.ErrClosed) {
			t.Errorf("Start: %v", err)
		}
		seen.wantOutcomes(t, once.Cancelled, once.Cancelled)
	})
}

// closing runs a message with the given handler, closes the guard under it and
// returns what both said and how long Close took.
func closing(t *testing.T, s store.Store, c once.Config, closeCtx func() context.Context, h message.NoPublishHandlerFunc) (took time.Duration, handled, closed error) {
	t.Helper()
	g, err := once.New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := g.Do(context.Background(), "hook", "k", func(ctx context.Context, _ *sqlx.Tx) error {
			return h(message.NewMessageWithContext(ctx, "m1", nil))
		})
		done <- err
	}()
	synctest.Wait()
	began := time.Now()
	closed = g.Close(closeCtx())
	took = time.Since(began)
	return took, <-done, closed
}

func TestClose_WaitsForAttemptsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took, handled, closed := closing(t, newFake(), quick(), context.Background, func(*message.Message) error {
			elapse(10 * time.Second)
			return nil
		})
		if handled != nil || closed != nil || took != 10*time.Second {
			t.Errorf("handled %v, closed %v, took %s", handled, closed, took)
		}
	})
}

func TestClose_CancelsWhatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took, handled, closed := closing(t, newFake(), quick(), context.Background, func(msg *message.Message) error {
			<-msg.Context().Done()
			return msg.Context().Err()
		})
		if !errors.Is(handled, context.Canceled) || !once.IsTransient(handled) || closed != nil || took != once.DefaultDrain {
			t.Errorf("handled %v, closed %v, took %s", handled, closed, took)
		}
	})
}

func TestClose_SaysHowManyDidNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		c := quick()
		c.Observer = seen
		took, handled, closed := closing(t, newFull(), c, context.Background, func(*message.Message) error {
			elapse(time.Hour) // deaf
			return nil
		})
		if !errors.Is(handled, context.Canceled) {
			t.Errorf("handled %v", handled)
		}
		if closed == nil || !strings.Contains(closed.Error(), "1 attempts") || took != once.DefaultDrain+store.DefaultRollback {
			t.Errorf("closed %v after %s", closed, took)
		}
		if e := eventsOf[once.Closed](seen); len(e) != 1 || e[0].Left != 1 {
			t.Errorf("events %+v", e)
		}
	})
}

func TestClose_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		took, _, closed := closing(t, newFake(), quick(), func() context.Context { return ctx }, func(*message.Message) error {
			elapse(time.Minute)
			return nil
		})
		if closed == nil || took != time.Second {
			t.Errorf("closed %v after %s", closed, took)
		}
	})
}

func TestClose_WaitsUntilTheMessageIsSettled(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), quick())
		msg := message.NewMessageWithContext(ctx, "m1", nil)
		h := handle(g, func(*message.Message) error { elapse(time.Second); return nil })
		go func() {
			_ = h(msg)
			elapse(time.Second) // an outer middleware, or the outputs
			msg.Ack()
		}()
		synctest.Wait()
		began := time.Now()
		if err := g.Close(t.Context()); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestClose_EndsWaitsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := handlerContext(t, "h", "t")
	down := newFake()
	down.before = func(context.Context, store.Claim) error { return store.ErrUnavailable }
	slow := once.Config{Service: "svc", BackoffMin: time.Hour, BackoffMax: time.Hour, Hold: time.Hour, Limit: 1, PurgeEvery: -1, Observer: once.NopObserver{}}
	for name, c := range map[string]struct {
		store *fakeStore
		is    error
	}{
		"hold":     {down, store.ErrUnavailable},
		"back-off": {newFake(), errBusiness},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, c.store, slow)
				done := make(chan error)
				go func() {
					msg := message.NewMessageWithContext(ctx, "m1", nil)
					err := handle(g, func(*message.Message) error { return errBusiness })(msg)
					msg.Nack()
					done <- err
				}()
				synctest.Wait()
				began := time.Now()
				go func() { _ = g.Close(context.Background()) }()
				if err := <-done; !errors.Is(err, c.is) || time.Since(began) != 0 {
					t.Errorf("got %v after %s", err, time.Since(began))
				}
			})
		})
	}
}

func TestClose_SecondCallerIsBoundedByItsOwnContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, err := once.New(newFake(), quick())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = g.Do(context.Background(), "hook", "k", func(context.Context, *sqlx.Tx) error { elapse(10 * time.Second); return nil })
		}()
		synctest.Wait()
		first := make(chan error)
		go func() { first <- g.Close(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// Guards share an application's pool, and a store over it: one that closes takes
// nothing from the other.
func TestClose_GuardsOnOneStoreCloseIndependently(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	shared := sqlite.New(s.db)
	first := newGuard(t, shared, quick())
	second := newGuard(t, shared, once.Config{Service: "other", Observer: once.NopObserver{}, PurgeEvery: -1})
	for i, g := range []*once.Guard{first, second} {
		if err := handle(g, effectOf)(deliver(t, fmt.Sprint("m", i), "x")); err != nil {
			t.Error(err)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := handle(second, effectOf)(deliver(t, "later", "x")); err != nil {
		t.Errorf("the other guard: %v", err)
	}
	s.wantEffects(t, 3)
}

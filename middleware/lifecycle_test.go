package once_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// fullStore has the optional interfaces that the guard uses.
type fullStore struct {
	*fakeStore
	verifies atomic.Int32
	verify   func(ctx context.Context) ([]store.Finding, error)
	ping     error
	pool     int
	closed   atomic.Int32
	closeErr error
	purges   atomic.Int32
	purge    func(ctx context.Context, p store.Purge) (int64, error)
}

func newFull() *fullStore { return &fullStore{fakeStore: newFake()} }

func (s *fullStore) Verify(ctx context.Context) ([]store.Finding, error) {
	s.verifies.Add(1)
	if s.verify == nil {
		return nil, nil
	}
	return s.verify(ctx)
}

func (s *fullStore) Ping(context.Context) error { return s.ping }
func (s *fullStore) MaxOpenConns() int          { return s.pool }
func (s *fullStore) Close() error               { s.closed.Add(1); return s.closeErr }

func (s *fullStore) Purge(ctx context.Context, p store.Purge) (int64, error) {
	s.purges.Add(1)
	if s.purge == nil {
		return 0, nil
	}
	return s.purge(ctx, p)
}

func TestStart_TellsWhatItFoundAndOnlyOnce(t *testing.T) {
	t.Parallel()
	s := newFull()
	s.pool = 16
	s.verify = func(context.Context) ([]store.Finding, error) {
		return []store.Finding{{Setting: "synchronous_commit", Value: "off"}}, nil
	}
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	g := newGuard(t, s, c)
	for range 2 {
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.verifies.Load(); n != 1 {
		t.Errorf("verified %d times", n)
	}
	if e := eventsOf[once.StoreWeak](seen); len(e) != 1 || e[0].Setting != "synchronous_commit" {
		t.Errorf("findings %+v", e)
	}
	if e := eventsOf[once.Started](seen); len(e) != 1 || e[0].Service != "svc" {
		t.Errorf("started %+v", e)
	}
}

func TestB38_PoolNotLargerThanTheLimitIsTold(t *testing.T) {
	t.Parallel()
	for pool, told := range map[int]int{0: 0, 15: 1, 16: 1, 17: 0} {
		s := newFull()
		s.pool = pool
		seen := &recorder{}
		c := quick()
		c.Observer = seen
		if err := newGuard(t, s, c).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := eventsOf[once.PoolSmall](seen); len(e) != told {
			t.Errorf("pool %d: %+v", pool, e)
		}
	}
}

func TestB38_PoolExhaustedIsATypedErrorAndProgressResumes(t *testing.T) {
	t.Parallel()
	s := newFake()
	exhausted := true
	s.before = func(context.Context, store.Claim) error {
		if exhausted {
			return store.ErrUnavailable
		}
		return nil
	}
	h := handle(newGuard(t, s, quick()), nothing)
	if err := h(deliver(t, "m1", "x")); !errors.Is(err, store.ErrUnavailable) || !once.IsTransient(err) {
		t.Errorf("got %v", err)
	}
	exhausted = false
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
}

func TestStart_FailsAndMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	s := newFull()
	fail := true
	s.verify = func(context.Context) ([]store.Finding, error) {
		if fail {
			return nil, store.ErrSchema
		}
		return nil, nil
	}
	g := newGuard(t, s, quick())
	if err := g.Start(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("got %v", err)
	}
	if err := g.Ready(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("ready: %v", err)
	}
	fail = false
	if err := g.Start(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStart_LazilyByTheFirstMessageIsHeldAndRetried(t *testing.T) {
	t.Parallel()
	s := newFull()
	var tries atomic.Int32
	s.verify = func(context.Context) ([]store.Finding, error) {
		if tries.Add(1) < 3 {
			return nil, store.ErrSchema
		}
		return nil, nil
	}
	seen := &recorder{}
	c := quick()
	c.Hold = 5 * time.Second
	c.Observer = seen
	if err := handle(newGuard(t, s, c), nothing)(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	if e := eventsOf[once.AttemptHeld](seen); len(e) != 2 || !errors.Is(e[0].Err, store.ErrSchema) {
		t.Errorf("held %+v", e)
	}
}

func TestStart_LazilyFailingIsTransientAndALaterMessageWorks(t *testing.T) {
	t.Parallel()
	s := newFull()
	fail := true
	s.verify = func(context.Context) ([]store.Finding, error) {
		if fail {
			return nil, errBusiness
		}
		return nil, nil
	}
	h := handle(newGuard(t, s, quick()), nothing)
	err := h(deliver(t, "m1", "x"))
	if !errors.Is(err, errBusiness) || !errors.Is(err, store.ErrUnavailable) || !once.IsTransient(err) || once.Poison(err) {
		t.Errorf("got %v", err)
	}
	fail = false
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
}

func TestStart_AThousandMessagesStartItOnce(t *testing.T) {
	t.Parallel()
	s := newFull()
	var all, done sync.WaitGroup
	all.Add(1000)
	s.verify = func(context.Context) ([]store.Finding, error) {
		all.Wait() // everybody is there
		return nil, nil
	}
	h := handle(newGuard(t, s, quick()), nothing)
	ctx := handlerContext(t, "h", "t")
	for i := range 1000 {
		done.Go(func() {
			all.Done()
			if err := h(message.NewMessageWithContext(ctx, strconv.Itoa(i), nil)); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if n := s.verifies.Load(); n != 1 {
		t.Errorf("verified %d times", n)
	}
}

func TestStart_AStoreThatPanicsDoesNotLeaveOthersWaiting(t *testing.T) {
	t.Parallel()
	s := newFull()
	s.verify = func(context.Context) ([]store.Finding, error) { panic("boom") }
	g := newGuard(t, s, quick())
	for range 2 {
		func() {
			defer func() { _ = recover() }()
			_ = g.Start(t.Context())
		}()
	}
	if n := s.verifies.Load(); n != 2 {
		t.Errorf("verified %d times", n)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	s := newFull()
	g := newGuard(t, s, quick())
	if err := g.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	s.ping = store.ErrUnavailable
	if err := g.Ready(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Ready(t.Context()); !errors.Is(err, once.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

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

package once_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

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

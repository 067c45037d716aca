package once_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// A copy in flight elsewhere is waited for: when it commits, this one is a
// duplicate; when it rolls back, this one runs; when the wait is over it is
// nacked, and comes again.
func TestACopyInFlight(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		for name, firstFails := range map[string]bool{"commits": false, "rolls back": true} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, kind.open(t), nil)
				gate := h.twoCopies(firstFails)
				close(gate)
				h.ended(once.Processed, 1)
				h.ended(once.Duplicate, 1)
				h.wantEffects(1)
			})
		}
		t.Run(kind.name+"/B16 the wait is over", func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kind.open(t), func(c *once.Config) { c.Wait = kind.minWait })
			gate := h.twoCopies(false)
			h.ended(once.InFlight, 1)
			close(gate)
			h.ended(once.Processed, 1)
			h.ended(once.Duplicate, 1)
			h.wantEffects(1)
		})
	}
}

// twoCopies delivers a message twice at once. The copy that runs first stays in
// its handler until the returned channel is closed.
func (h *house) twoCopies(firstFails bool) chan struct{} {
	h.atOnce = true
	running, gate := make(chan struct{}), make(chan struct{})
	var first sync.Once
	h.run(func(msg *message.Message) error {
		if err := writeEffect(msg); err != nil {
			return err
		}
		var err error
		first.Do(func() {
			close(running)
			<-gate
			if firstFails {
				err = errors.New("not today")
			}
		})
		return err
	})
	h.deliver(id, "payload")
	<-running
	h.deliver(id, "payload")
	return gate
}

func (h *house) wantEffects(want int) {
	h.t.Helper()
	var got int
	if err := h.store.DB().GetContext(h.t.Context(), &got, "SELECT COUNT(*) FROM effects"); err != nil || got != want {
		h.t.Errorf("%d effects, %v: want %d", got, err, want)
	}
}

// B34: the answer to COMMIT is lost, before or after the commit arrived. Never
// acked, never run again in the same attempt; the redelivery's claim decides.
func TestB34_TheAnswerToCommitIsLost(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		if kind.wire == nil {
			continue
		}
		for name, applied := range map[string]bool{"not applied": false, "applied": true} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, wire := kind.wire(t)
				h := newHouse(t, s, nil)
				h.run(writeEffect)
				h.deliver("first", "warm")
				if applied {
					wire.CutAfter(isCommit)
				} else {
					wire.CutBefore(isCommit)
				}
				h.deliver(id, "payload")
				if applied {
					h.want(2, 2, once.Processed, once.CommitUnknown, once.Duplicate)
				} else {
					h.want(2, 2, once.Processed, once.CommitUnknown, once.Processed)
				}
			})
		}
	}
}

// W08: while the database is away nothing is dead-lettered and nothing is
// acked; the message is held and processed when it is back.
func TestW08_TheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		if kind.wire == nil {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s, wire := kind.wire(t)
			h := newHouse(t, s, nil)
			h.run(writeEffect)
			h.deliver("first", "warm")
			wire.Refuse()
			wire.CutAll()
			var delivered sync.WaitGroup
			delivered.Go(func() { h.deliver(id, "payload") })
			storetest.Eventually(t, storetest.Patience, "the message is held", func() error {
				if len(eventsOf[once.AttemptHeld](h.seen)) > 2 {
					return nil
				}
				return errors.New("not yet")
			})
			if err := h.guard.Ready(t.Context()); err == nil {
				t.Error("the guard says that it is ready while the database is away")
			}
			wire.Resume()
			delivered.Wait()
			if err := h.guard.Ready(t.Context()); err != nil {
				t.Errorf("not ready when the database is back: %v", err)
			}
			h.want(2, 2, once.Processed, once.Processed)
			select {
			case msg := <-h.dead:
				t.Errorf("dead-lettered: %v", msg.Metadata)
			default:
			}
		})
	}
}

// W06: a router that closes cancels its messages at once; an attempt whose
// handler runs still commits within the drain time.
func TestW06_ShutdownWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kind.open(t), nil)
			running, release := make(chan struct{}), make(chan struct{})
			h.run(func(msg *message.Message) error {
				close(running)
				<-release
				if err := msg.Context().Err(); err != nil {
					t.Errorf("the handler's context ended: %v", err)
				}
				return writeEffect(msg)
			})
			var all sync.WaitGroup
			all.Go(func() { h.deliver(id, "payload") })
			<-running
			all.Go(func() { _ = h.router.Close() })
			storetest.Eventually(t, storetest.Patience, "the router closes", func() error {
				if h.router.IsRunning() && !routerCloses(h.router) {
					return errors.New("not yet")
				}
				return nil
			})
			close(release)
			all.Wait()
			storetest.Eventually(t, time.Second, "the attempt is told of", func() error {
				if len(h.seen.outcomes()) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			h.want(1, 1, once.Processed)
		})
	}
}

// routerCloses reports whether Close has begun: it holds the lock that IsClosed
// needs.
func routerCloses(r *message.Router) bool {
	done := make(chan bool, 1)
	go func() { done <- r.IsClosed() }()
	select {
	case closed := <-done:
		return closed
	case <-time.After(10 * time.Millisecond):
		return true
	}
}

func isCommit(s storetest.Statement) bool { return s.Runs() && strings.EqualFold(s.Text, "commit") }

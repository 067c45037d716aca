package once_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// aside claims and commits beside the messages. The rig's guard has one slot.
func aside(t *testing.T, r *rig) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	_, err := r.guard.Do(t.Context(), "aside", "k", func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effects (id) VALUES ('aside')`)
		return err
	})
	return time.Since(began), err
}

// pace keeps when the handler ran.
type pace struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func (p *pace) run(*message.Message, int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Since(p.began))
	return nil
}

func throttled() message.HandlerMiddleware {
	return middleware.NewThrottle(1, 10*time.Second).Middleware
}

// throttleOutside: who waits for the throttle holds nothing that others need.
func throttleOutside(t *testing.T, r *rig) {
	p := &pace{began: time.Now()}
	r.outside(t, p.run, throttled())
	r.send(t, "m1", "m2", "m3")
	r.want(t, state{})
	if took, err := aside(t, r); took != 0 || err != nil {
		t.Errorf("another attempt took %v: %v", took, err)
	}
	elapse(time.Minute)
	got := r.state(t)
	if got.runs != 3 || got.effects != 4 || got.acked != 3 || got.nacked != 0 {
		t.Errorf("got %+v", got)
	}
	if want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}; !reflect.DeepEqual(p.at, want) {
		t.Errorf("it ran at %v, want %v", p.at, want)
	}
}

// throttleInside: who waits holds the slot, and on SQLite the whole file.
func throttleInside(t *testing.T, r *rig) {
	p := &pace{began: time.Now()}
	r.inside(t, p.run, throttled())
	r.send(t, "m1")
	if n := r.store.db.Stats().InUse; n != 1 {
		t.Errorf("%d connections are in use", n)
	}
	if took, err := aside(t, r); took < 9*time.Second || err != nil {
		t.Errorf("another attempt took %v: %v", took, err)
	}
	r.want(t, state{
		runs: 1, effects: 2, claims: []string{"m1"}, acked: 1,
		outcomes: []once.Outcome{once.Processed, once.Processed},
	})
}

// newBreaker opens after six failures in a row, which is the default. Its
// settings are of a package that this module does not need by itself.
func newBreaker(closed time.Duration) message.HandlerMiddleware {
	settings := argumentOf(middleware.NewCircuitBreaker)
	settings.Timeout = closed
	return middleware.NewCircuitBreaker(settings).Middleware
}

func argumentOf[A, R any](func(A) R) (a A) { return a }

var sixBad = []string{"bad1", "bad2", "bad3", "bad4", "bad5", "bad6"}

func failBad(msg *message.Message, _ int) error {
	if msg.UUID[:3] == "bad" {
		return errBusiness
	}
	return nil
}

func sixFailed(before, after []once.Outcome) []once.Outcome {
	for range 6 {
		before = append(before, once.Failed)
	}
	return append(before, after...)
}

// breakerOutside: while it is open, good messages and duplicates that it turns
// away end in the dead letters, because its error is nobody's that Poison knows.
func breakerOutside(t *testing.T, r *rig) {
	r.outside(t, failBad, r.poison(t), newBreaker(time.Hour))
	r.send(t, "dup")
	r.send(t, sixBad...)
	r.send(t, "good", "dup")
	r.want(t, state{
		runs: 7, effects: 1, claims: []string{"dup"}, acked: 9, dead: 8,
		outcomes: sixFailed([]once.Outcome{once.Processed}, nil),
	})
	wantLetter(t, r, "good", "circuit breaker is open")
}

// breakerInside: the same harm, but duplicates do not get that far.
func breakerInside(t *testing.T, r *rig) {
	r.inside(t, failBad, newBreaker(time.Hour))
	r.send(t, "dup")
	r.send(t, sixBad...)
	r.send(t, "good", "dup")
	r.want(t, state{
		runs: 7, effects: 1, claims: []string{"dup"}, acked: 9, dead: 7,
		outcomes: sixFailed([]once.Outcome{once.Processed}, []once.Outcome{once.Failed, once.Duplicate}),
	})
	wantLetter(t, r, "good", "circuit breaker is open")
}

// wantLetter: it is dead without having run.
func wantLetter(t *testing.T, r *rig, uuid, reason string) {
	t.Helper()
	for _, msg := range r.letters() {
		if msg.UUID == uuid {
			got := msg.Metadata.Get(middleware.ReasonForPoisonedKey)
			if len(got) < len(reason) || got[len(got)-len(reason):] != reason {
				t.Errorf("the reason is %q", got)
			}
			return
		}
	}
	t.Errorf("%s is not in the dead letters", uuid)
}

// Outside the poison queue the breaker sees what is not the messages' fault,
// and what it turns away comes again.
func TestNeighbours_CircuitBreakerOutsideThePoisonQueue(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		down := true
		r.outside(t, func(msg *message.Message, run int) error {
			if down {
				return store.WithClass(store.ClassTransient, errors.New("deadlock"))
			}
			return failBad(msg, run)
		}, newBreaker(30*time.Second), r.poison(t))
		r.send(t, "good")
		elapse(10 * time.Second)
		if n := r.runs.Load(); n != 6 {
			t.Errorf("it ran %d times before the breaker opened", n)
		}
		down = false
		elapse(time.Minute)
		r.send(t, sixBad...)
		r.send(t, "good2")
		synctest.Wait()
		got := r.state(t)
		if got.runs != 14 || got.effects != 2 || got.dead != 6 || got.acked != 8 {
			t.Errorf("got %+v", got)
		}
	})
}

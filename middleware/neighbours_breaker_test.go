package once_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

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
	if strings.HasPrefix(msg.UUID, "bad") {
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
			if !strings.HasSuffix(got, reason) {
				t.Errorf("the reason is %q", got)
			}
			return
		}
	}
	t.Errorf("%s is not in the dead letters", uuid)
}

// busy fails as a database does that asks to try again.
func busy(*message.Message, int) error {
	return store.WithClass(store.ClassTransient, errors.New("deadlock"))
}

// knowsBreakers is what the documentation shows. The errors are gobreaker's,
// asked for by their texts here for the reason that newBreaker has.
func knowsBreakers(err error) bool {
	return once.Poison(err) && !strings.HasSuffix(err.Error(), "circuit breaker is open") && !strings.HasSuffix(err.Error(), "too many requests")
}

func TestNeighbours_CircuitBreakerBehindAFilterThatKnowsIt(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		poison, err := middleware.PoisonQueueWithFilter(r.bus.channel, deadTopic, knowsBreakers)
		if err != nil {
			t.Fatal(err)
		}
		r.outside(t, failBad, poison, newBreaker(10*time.Second))
		r.send(t, sixBad...)
		r.send(t, "good")
		elapse(time.Minute)
		got := r.state(t)
		if got.runs != 7 || got.effects != 1 || got.acked != 7 || got.nacked < 9 || got.dead != 6 {
			t.Errorf("got %+v", got)
		}
	})
}

// Outside the poison queue the breaker sees what is not the messages' fault,
// and what it turns away comes again.
func TestNeighbours_CircuitBreakerOutsideThePoisonQueue(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		var back atomic.Bool
		r.outside(t, func(msg *message.Message, run int) error {
			if !back.Load() {
				return busy(msg, run)
			}
			return failBad(msg, run)
		}, newBreaker(30*time.Second), r.poison(t))
		r.send(t, "good")
		elapse(10 * time.Second)
		if n := r.runs.Load(); n != 6 {
			t.Errorf("it ran %d times before the breaker opened", n)
		}
		back.Store(true)
		elapse(time.Minute)
		r.send(t, sixBad...)
		r.send(t, "good2")
		got := r.state(t)
		if got.runs != 14 || got.effects != 2 || got.dead != 6 || got.acked != 8 {
			t.Errorf("got %+v", got)
		}
	})
}

// What it turns away never reaches the guard, which would back off. On a broker
// that redelivers at once that is a busy circle, wherever outside it stands.
func TestNeighbours_OpenCircuitBreakerNacksAtOnce(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		const enough = 500
		var began, ended time.Time
		circles := 0
		r.distance = 0
		r.outside(t, busy, func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				if circles++; circles > enough {
					<-msg.Context().Done() // lets time go on
				}
				out, err := next(msg)
				if ended = time.Now(); r.runs.Load() == 6 && began.IsZero() {
					began = ended
				}
				return out, err
			}
		}, newBreaker(time.Hour))
		r.send(t, "m1")
		if n := r.runs.Load(); n != 6 || circles <= enough || ended.After(began) {
			t.Errorf("%d runs, %d circles in %v", n, circles, ended.Sub(began))
		}
	})
}

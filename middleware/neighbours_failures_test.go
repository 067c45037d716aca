package once_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func retryOutside(t *testing.T, r *rig) {
	r.outside(t, func(_ *message.Message, run int) error {
		if run < 3 {
			return errBusiness
		}
		return nil
	}, retry(2))
	r.send(t, "m1")
	elapse(time.Minute)
	r.send(t, "m1")
	r.want(t, state{
		runs: 3, effects: 1, claims: []string{"m1"}, acked: 2,
		outcomes: []once.Outcome{once.Failed, once.Failed, once.Processed, once.Duplicate},
	})
}

func panicFirst(_ *message.Message, run int) error {
	if run == 1 {
		panic("boom")
	}
	return nil
}

func recovererOutside(t *testing.T, r *rig) {
	recoverer(t, r, once.Panicked, func(h script) { r.outside(t, h, middleware.Recoverer) })
}

func recovererInside(t *testing.T, r *rig) {
	recoverer(t, r, once.Failed, func(h script) {
		r.start(t, h, r.guard.Middleware, middleware.Recoverer)
	})
}

// recoverer: the panic is rolled back and becomes an error, and the redelivery
// does the work. The places differ in what the guard calls it.
func recoverer(t *testing.T, r *rig, first once.Outcome, run func(script)) {
	t.Helper()
	run(panicFirst)
	r.send(t, "m1")
	elapse(2 * time.Second)
	r.want(t, state{
		runs: 2, effects: 1, claims: []string{"m1"}, acked: 1, nacked: 1,
		outcomes: []once.Outcome{first, once.Processed},
	})
	var recovered middleware.RecoveredPanicError
	if err := r.returned()[0]; !errors.As(err, &recovered) || recovered.V != "boom" || !once.Poison(err) {
		t.Errorf("got %v", err)
	}
}

// slow outlasts its deadline in one of the ways that a handler can.
func slow(msg *message.Message, _ int) error {
	switch msg.UUID {
	case "obeys":
		<-msg.Context().Done()
		return msg.Context().Err()
	case "writes late":
		elapse(2 * time.Second)
		return effect(msg.Context(), "second")
	default:
		elapse(2 * time.Second)
		return nil
	}
}

func timeoutOutside(t *testing.T, r *rig) {
	r.outside(t, slow, r.poison(t), middleware.Timeout(time.Second))
	sendSlowly(t, r)
	r.want(t, state{runs: 3, acked: 3, dead: 3, outcomes: slices.Repeat([]once.Outcome{once.Failed}, 3)})
	wantReasons(t, r, context.DeadlineExceeded.Error())
}

// timeoutInside: only a handler, or a statement, that looks at the context
// notices the deadline. One that succeeds after it is committed.
func timeoutInside(t *testing.T, r *rig) {
	r.inside(t, slow, middleware.Timeout(time.Second))
	sendSlowly(t, r)
	r.want(t, state{
		runs: 3, effects: 1, claims: []string{"ignores"}, acked: 3, dead: 2,
		outcomes: []once.Outcome{once.Failed, once.Failed, once.Processed},
	})
	wantReasons(t, r, context.DeadlineExceeded.Error())
}

func sendSlowly(t *testing.T, r *rig) {
	t.Helper()
	for _, id := range []string{"obeys", "writes late", "ignores"} {
		r.send(t, id)
		elapse(time.Minute)
	}
}

// The guard backs off before it returns an error, on the message's context. A
// deadline outside ends that as well, so a short one makes a busy circle.
func TestNeighbours_TimeoutOutsideCutsTheBackOff(t *testing.T) {
	for name, c := range map[string]struct {
		outer       bool
		least, most int32 // runs in a minute
	}{
		"outside": {true, 60, 60},
		"inside":  {false, 2, 4}, // 30 s with a jitter of a half
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, r *rig) {
				config := r.config()
				config.BackoffMin, config.BackoffMax = 30*time.Second, 30*time.Second
				g := newGuard(t, r.store.SQL, config)
				chain := []message.HandlerMiddleware{g.Middleware, middleware.Timeout(time.Second)}
				if c.outer {
					slices.Reverse(chain)
				}
				r.distance = 0
				r.start(t, func(*message.Message, int) error { return errBusiness }, chain...)
				r.send(t, "m1")
				elapse(time.Minute - 200*time.Millisecond)
				if n := r.runs.Load(); n < c.least || n > c.most {
					t.Errorf("%d runs in a minute", n)
				}
			})
		})
	}
}

func wantReasons(t *testing.T, r *rig, part string) {
	t.Helper()
	for _, msg := range r.letters() {
		if reason := msg.Metadata.Get(middleware.ReasonForPoisonedKey); !strings.Contains(reason, part) {
			t.Errorf("%s is dead because of %q", msg.UUID, reason)
		}
	}
}

// deadlock fails "bad" for good, and others once, as a database does that asks to
// try again.
func deadlock(msg *message.Message, run int) error {
	if msg.UUID == "bad" {
		return errBusiness
	}
	if run == 1 {
		return store.WithClass(store.ClassTransient, errors.New("deadlock"))
	}
	return nil
}

func poisonOutside(t *testing.T, r *rig) {
	r.outside(t, deadlock, r.poison(t))
	r.send(t, "good")
	elapse(2 * time.Second)
	r.send(t, "bad")
	r.want(t, state{
		runs: 3, effects: 1, claims: []string{"good"}, acked: 2, nacked: 1, dead: 1,
		outcomes: []once.Outcome{once.RolledBack, once.Processed, once.Failed},
	})
	wantReasons(t, r, errBusiness.Error())
}

// Without the filter one deadlock is enough to lose a good message to the dead
// letters.
func TestNeighbours_PoisonQueueWithoutAFilter(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		r.outside(t, deadlock, poisonEverything(t, r))
		r.send(t, "good")
		elapse(2 * time.Second)
		r.want(t, state{runs: 1, acked: 1, dead: 1, outcomes: []once.Outcome{once.RolledBack}})
	})
}

package once_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

// instantAckOutside: what was rolled back never comes again.
func instantAckOutside(t *testing.T, r *rig) {
	r.outside(t, failFirst, instantAck)
	r.send(t, "m1")
	elapse(time.Minute)
	r.want(t, state{runs: 1, acked: 1, outcomes: []once.Outcome{once.Failed}})
}

func duplicatorOutside(t *testing.T, r *rig) {
	r.outside(t, succeed, duplicator)
	r.send(t, "m1")
	r.want(t, state{
		runs: 1, effects: 1, claims: []string{"m1"}, acked: 1,
		outcomes: []once.Outcome{once.Processed, once.Duplicate},
	})
}

// deduplicatorOutside: it has seen the redelivery before, so nobody does the
// work, and the message is acked.
func deduplicatorOutside(t *testing.T, r *rig) {
	r.outside(t, failFirst, deduplicator(t, r))
	r.send(t, "m1")
	elapse(time.Minute)
	r.want(t, state{runs: 1, acked: 1, nacked: 1, outcomes: []once.Outcome{once.Failed}})
}

func ignoring(err error) message.HandlerMiddleware {
	return middleware.NewIgnoreErrors([]error{err}).Middleware
}

// ignoreErrorsOutside: it compares texts, and the guard's error begins with the
// consumer and the key. Nothing is lost, but nothing is ignored either.
func ignoreErrorsOutside(t *testing.T, r *rig) {
	r.outside(t, failFirst, ignoring(errBusiness))
	r.send(t, "m1")
	elapse(2 * time.Second)
	r.want(t, state{
		runs: 2, effects: 1, claims: []string{"m1"}, acked: 1, nacked: 1,
		outcomes: []once.Outcome{once.Failed, once.Processed},
	})
}

// ignoreErrorsInside: what the handler did before it failed is committed.
func ignoreErrorsInside(t *testing.T, r *rig) {
	r.inside(t, failFirst, ignoring(errBusiness))
	r.send(t, "m1")
	r.want(t, state{
		runs: 1, effects: 1, claims: []string{"m1"}, acked: 1,
		outcomes: []once.Outcome{once.Processed},
	})
}

// ErrSkip is what to use instead of IgnoreErrors.
func TestNeighbours_ErrSkipIgnoresAnErrorAndRollsBack(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		r.outside(t, func(*message.Message, int) error { return once.ErrSkip })
		r.send(t, "m1")
		elapse(time.Minute)
		r.want(t, state{runs: 1, acked: 1, outcomes: []once.Outcome{once.Skipped}})
	})
}

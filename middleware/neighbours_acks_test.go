package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

// instantAckOutside: what was rolled back never comes again. A broker may also
// end the context of a message when it is acked, as gochannel does: then it is
// lost without having run.
func instantAckOutside(t *testing.T, r *rig) {
	r.outside(t, failFirst, on("lasts", detach), instantAck, on("ends", untilItsEnd))
	r.send(t, "lasts", "ends")
	elapse(time.Minute)
	r.want(t, state{runs: 1, acked: 2, outcomes: []once.Outcome{once.Failed, once.Cancelled}})
}

func detach(msg *message.Message) { msg.SetContext(context.WithoutCancel(msg.Context())) }

func untilItsEnd(msg *message.Message) { <-msg.Context().Done() }

// on does something to one message on its way.
func on(uuid string, do func(*message.Message)) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if msg.UUID == uuid {
				do(msg)
			}
			return next(msg)
		}
	}
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

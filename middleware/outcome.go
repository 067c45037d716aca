package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/watermill-once/watermill-once/store"
)

// Outcome is how an attempt ended. Every attempt ends in exactly one, so that
// counters of outcomes add up to attempts. Its text ([Outcome.String]) is made
// for a metric's label.
type Outcome int

// The outcomes. The comment says what the broker is told.
const (
	// Processed: the handler ran, its writes and the claim are committed. Ack.
	Processed Outcome = iota + 1
	// Duplicate: the key has a committed claim; the handler did not run. Ack.
	Duplicate
	// Skipped: Config.When was false, or the handler returned [ErrSkip]. Ack.
	Skipped
	// Failed: the handler returned an error, or something that it did could not
	// be committed. Nack.
	Failed
	// Panicked: the handler panicked; the panic goes on.
	Panicked
	// Exited: the handler ended its goroutine with runtime.Goexit. Nack, by the
	// guard itself, since the router leaves such a message unsettled.
	Exited
	// RolledBack: the handler ran, but the database asked to try again
	// (deadlock, serialization failure) or failed under it. Nack.
	RolledBack
	// InFlight: a copy of the message was in flight elsewhere for longer than
	// Config.Wait. Nack.
	InFlight
	// Unavailable: the store could not be asked, also not within Config.Hold.
	// Nack.
	Unavailable
	// CommitUnknown: the answer to COMMIT was lost; the redelivery's claim
	// decides. Nack.
	CommitUnknown
	// Cancelled: the attempt's context ended, or the guard was closed, before
	// the handler said yes. Nack.
	Cancelled
	// NoKey: the message has no key or no fingerprint; no statement was sent.
	// Nack, permanent.
	NoKey
	// Reused: the key was claimed with another payload. Nack, permanent.
	Reused
	// Unsent: the work is committed, by this attempt or an earlier one, but an
	// output could not be sent. Nack; the redelivery, a duplicate, sends it, or
	// the relay.
	Unsent
	// Dropped: the handler reported an error ([Report]) that whatever stands
	// around it then hid, as CQRS does with AckCommandHandlingErrors. All is
	// rolled back and no claim stays. Ack.
	Dropped
	// Refused: the program or its configuration has to change: a wrong chain, a
	// guard inside a guard, returned messages, a claim that the store cannot
	// keep. Nack.
	Refused
)

var outcomeNames = [...]string{
	Processed:     "processed",
	Duplicate:     "duplicate",
	Skipped:       "skipped",
	Failed:        "failed",
	Panicked:      "panicked",
	Exited:        "exited",
	RolledBack:    "rolled_back",
	InFlight:      "in_flight",
	Unavailable:   "unavailable",
	CommitUnknown: "commit_unknown",
	Cancelled:     "cancelled",
	NoKey:         "no_key",
	Reused:        "reused",
	Unsent:        "unsent",
	Dropped:       "dropped",
	Refused:       "refused",
}

// String returns a lower-case word, such as "processed" or "in_flight".
func (o Outcome) String() string {
	if o < Processed || o > Refused {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

// verdict is what an attempt comes to: a nil error acknowledges.
type verdict struct {
	outcome Outcome
	err     error
}

// judge decides what the store's answer means. Whether the handler ran is known
// first hand and goes before everything that an error says, so that an error
// which the handler returned is never taken for the store's own.
func (a *attempt) judge(result store.Result, err error) verdict {
	switch {
	case err == nil && result.Duplicate:
		return verdict{outcome: Duplicate}
	case err == nil:
		return verdict{outcome: Processed}
	case a.ran:
		return a.judgeRun(err)
	default:
		return a.judgeClaim(err)
	}
}

// judgeRun decides about an attempt whose handler ran and whose writes are not
// known to be committed.
func (a *attempt) judgeRun(err error) verdict {
	class, ended := classOf(err), a.contextEnd(err)
	switch {
	case errors.Is(a.handlerErr, ErrChain): // of another guard inside
		return a.refuse(store.ClassTransient, err)
	case errors.Is(err, store.ErrCommitUnknown) && a.handlerErr == nil:
		return a.fail(CommitUnknown, store.ClassTransient, err)
	case errors.Is(ended, context.Canceled):
		return a.fail(Cancelled, store.ClassTransient, withCause(ended, err))
	case ended != nil: // a handler that always times out must end in the dead letters
		return a.fail(Failed, store.ClassHandler, withCause(ended, err))
	case a.refused:
		return a.refuse(store.ClassTransient, err)
	case a.skipped && class != store.ClassTransient:
		return verdict{outcome: Skipped}
	case class == store.ClassTransient:
		return a.fail(RolledBack, class, err)
	case a.dropped != nil && a.msg != nil: // whoever calls Do has to know
		return verdict{outcome: Dropped}
	default:
		return a.fail(Failed, class, err)
	}
}

// contextEnd returns how the attempt's context had ended when the handler
// returned, or when the store looked right after it.
func (a *attempt) contextEnd(err error) error {
	if a.endedBy != nil {
		return a.endedBy
	}
	if end := a.context().Err(); end != nil && a.handlerErr == nil && errors.Is(err, end) {
		return end
	}
	return nil
}

// judgeClaim decides about an attempt whose handler did not run.
func (a *attempt) judgeClaim(err error) verdict {
	class := store.ClassOf(err)
	switch {
	case errors.Is(err, store.ErrKeyReused):
		return a.judgeReused(err)
	case errors.Is(err, store.ErrNested):
		return a.refuse(a.nestedClass(), err)
	case errors.Is(err, ErrClosed):
		return a.fail(Cancelled, store.ClassTransient, err)
	case class == store.ClassPermanent:
		return a.refuse(class, err)
	case a.over() != nil:
		return a.fail(Cancelled, store.ClassTransient, withCause(a.over(), err))
	case errors.Is(err, store.ErrInFlight):
		return a.fail(InFlight, store.ClassTransient, err)
	default:
		return a.fail(Unavailable, store.ClassTransient, err)
	}
}

func (a *attempt) judgeReused(err error) verdict {
	if a.settings.policy == FingerprintWarn {
		a.reused = true
		return verdict{outcome: Duplicate}
	}
	return a.fail(Reused, store.ClassPermanent, err)
}

// nestedClass: a handler that calls Do has to change and says so in its error;
// a chain with two guards would throw away every message if it were permanent.
func (a *attempt) nestedClass() store.Class {
	if a.msg != nil {
		return store.ClassTransient
	}
	return store.ClassPermanent
}

func (a *attempt) refuse(class store.Class, err error) verdict { return a.fail(Refused, class, err) }

// fail is the one place where an error gets the attempt's name and class.
func (a *attempt) fail(o Outcome, class store.Class, err error) verdict {
	named := &attemptError{consumer: a.about.Consumer, key: a.about.Key, err: err}
	return verdict{outcome: o, err: store.WithClass(class, named)}
}

// over returns how the attempt's time ended before its handler was called. The
// parent may be a moment behind the attempt's own timer, or ahead of its watch.
func (a *attempt) over() error {
	if err := a.parent.Err(); err != nil {
		return err
	}
	return a.context().Err()
}

// withCause makes cause recognisable in err, which may be a driver's own way to
// say it.
func withCause(cause, err error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

const lacksRight = "the role lacks a right (Script prints the tables and the grants; run it as their owner)"

// unavailable wraps what kept an attempt from claiming.
func (s *SQL) unavailable(what string, err error) error {
	if s.dialect.Fault(err) == FaultRights {
		what += ": " + lacksRight
	}
	return WithClass(ClassTransient, fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err))
}

// cancelled lets the end of the attempt's own context speak for itself: it is
// no fault of the store. Either way the message was not touched.
func (s *SQL) cancelled(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return WithClass(ClassTransient, fmt.Errorf("the attempt ended before its claim: %w", context.Cause(ctx)))
}

// handlerFailed places the error of an attempt whose handler ran and whose
// transaction was rolled back.
func (s *SQL) handlerFailed(ctx context.Context, err, doom error, age time.Duration) error {
	class := s.blame(ctx, err, doom)
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if doom != nil && !errors.Is(err, first(doom)) {
		err = fmt.Errorf("%w (an earlier statement failed: %w)", err, first(doom))
	}
	if fault := s.fault(err, doom); fault == FaultUnknown || fault == FaultConnection {
		err = fmt.Errorf("%w (the transaction was %s old: a limit of the server or of a proxy?)", err, age.Round(time.Millisecond))
	}
	return WithClass(class, err)
}

// blame decides whose fault a failed attempt is; doom is nil when no failed
// statement was left standing.
func (s *SQL) blame(ctx context.Context, err, doom error) Class {
	cause := first(orError(doom, err))
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ClassTransient
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ClassHandler // one that always times out must end in the dead letters
	case isAny(cause, ErrForbidden, ErrBusy):
		return ClassHandler
	case errors.Is(cause, ErrTooLarge):
		return ClassPermanent
	case isAny(cause, context.DeadlineExceeded, context.Canceled):
		return ClassHandler // a context of the handler's own
	}
	switch s.fault(err, doom) {
	case FaultUnknown, FaultConnection, FaultConflict, FaultLockWait, FaultSettings:
		return ClassTransient
	}
	return ClassOf(err)
}

// fault reads the code of the failed statement that doomed, or of the error
// that the handler returned. A dead connection in the latter may be one of the
// handler's own (an HTTP call): then no statement failed.
func (s *SQL) fault(err, doom error) Fault {
	if doom != nil {
		cause := first(doom)
		if isAny(cause, context.DeadlineExceeded, context.Canceled) {
			return FaultNone
		}
		return s.dialect.Fault(cause)
	}
	if f := s.dialect.Fault(err); f != FaultConnection {
		return f
	}
	return FaultNone
}

// commitFailed places the error of a commit. The connection is kept only when
// the server said clearly how it ended.
func (s *SQL) commitFailed(ctx context.Context, err error, t transaction, age time.Duration) error {
	var doom *DoomedError
	var kept *NotKeptError
	switch {
	case errors.As(err, &doom):
		return s.handlerFailed(ctx, fmt.Errorf("the handler returned nil, but %w", err), err, age)
	case errors.Is(err, ErrForbidden):
		return WithClass(ClassHandler, err)
	case errors.As(err, &kept):
		return s.notKept(kept.Err, t)
	}
	refused, fault := s.dialect.CommitRefused(err)
	if !refused {
		t.discard()
		return WithClass(ClassTransient, fmt.Errorf("%w: %w", ErrCommitUnknown, err))
	}
	class := ClassTransient
	if fault == FaultStatement {
		class = ClassHandler // a constraint deferred to the commit
	}
	return WithClass(class, fmt.Errorf("%w: %w", ErrCommitRefused, err))
}

// notKept places what kept the outputs out of the transaction, which was rolled
// back: that is no fault of the handler's.
func (s *SQL) notKept(err error, t transaction) error {
	switch s.dialect.Fault(err) {
	case FaultConnection, FaultReadOnly:
		t.discard()
	case FaultMissing:
		err = fmt.Errorf("%w: table %s is missing: %w", ErrSchema, s.names.Outputs, err)
	case FaultRights:
		err = fmt.Errorf(lacksRight+": %w", err)
	}
	err = fmt.Errorf("%w: the outputs could not be stored: %w", ErrCommitRefused, err)
	if errors.Is(err, ErrTooLarge) {
		return WithClass(ClassPermanent, err)
	}
	return WithClass(ClassTransient, err)
}

// first returns the failure behind a doom, or err itself.
func first(err error) error {
	if doom, ok := errors.AsType[*DoomedError](err); ok {
		return doom.First
	}
	return err
}

func orError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// DoomedError is what [ErrDoomed] carries: the first failure that was not
// undone.
type DoomedError = guarded.DoomedError

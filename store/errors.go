package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// Sentinels of this package, to be asked for with [errors.Is]. Each says when
// it happens and who is at fault; [ClassOf] gives the class.
var (
	// ErrInFlight: a copy of the message is being handled elsewhere and did
	// not end within Claim.Wait. Transient. On SQLite any other writer of the
	// file looks the same.
	ErrInFlight = errors.New("a copy of the message is in flight elsewhere")

	// ErrKeyReused: the key was claimed with another fingerprint. Permanent.
	// The error is a [*KeyReusedError].
	ErrKeyReused = errors.New("the key was already claimed with another payload")

	// ErrNested: an attempt was started inside an attempt on the same store,
	// where it would wait for itself. Permanent: the code must change. (The guard
	// makes it transient when its own place in the chain is the cause, since no
	// message is at fault then.)
	ErrNested = errors.New("an attempt is already running in this context on the same store")

	// ErrCommitUnknown: the answer to COMMIT was lost, so claim and writes may
	// or may not be there. Transient: the redelivery's claim decides.
	ErrCommitUnknown = errors.New("the answer to COMMIT was lost")

	// ErrCommitRefused: the database refused COMMIT and rolled back.
	// Transient for a serialization failure, else the handler's (a constraint
	// deferred to the commit). Also when the outputs could not be stored, which
	// is transient.
	ErrCommitRefused = errors.New("the database refused to commit")

	// ErrUnavailable: no claim could be tried: the store cannot be reached,
	// the pool gave no connection, or the begin or the claim failed or timed
	// out. Transient.
	ErrUnavailable = errors.New("the store is not available")

	// ErrTableLocked: the claim waited for a lock on the whole table (a
	// migration) instead of a copy in flight. Transient; also ErrUnavailable.
	ErrTableLocked = fmt.Errorf("%w: the claims table is locked", ErrUnavailable)

	// ErrReadOnly: the connection leads to a database that only reads, as
	// after a fail-over. The connection is discarded. Transient; also
	// ErrUnavailable.
	ErrReadOnly = fmt.Errorf("%w: the database is read-only", ErrUnavailable)

	// ErrDoomed: a statement of the handler failed and was not undone with
	// ROLLBACK TO, so the transaction cannot be committed. The error is a
	// [*DoomedError] and names the first failure.
	ErrDoomed = guarded.ErrDoomed

	// ErrForbidden: the handler sent a statement that would end the claim's
	// transaction, or called Commit or Rollback on it. The handler's.
	ErrForbidden = guarded.ErrForbidden

	// ErrBusy: a statement was sent while another was running or its Rows was
	// open: the transaction is used by two goroutines, or a Rows was not
	// closed. The handler's.
	ErrBusy = guarded.ErrBusy

	// ErrTooLarge: a statement is larger than the server takes; it was not
	// sent. Permanent.
	ErrTooLarge = guarded.ErrTooLarge

	// ErrInvalid: a claim, a setting or an argument that can never work.
	// Permanent.
	ErrInvalid = errors.New("invalid")

	// ErrSchema: the tables are missing or of another version. Transient for a
	// message (held until an operator migrated), fatal at start.
	ErrSchema = errors.New("the schema does not fit")

	// ErrPurgeSuspicious: a purge stopped because it would have taken nearly
	// every claim, or because the database's clock jumped.
	ErrPurgeSuspicious = errors.New("the purge looks wrong and was stopped")
)

// Class tells whose fault an error is, which decides what happens to the
// message.
type Class int

const (
	// ClassHandler: the handler's own failure; counts against the message.
	ClassHandler Class = iota
	// ClassTransient: the store's, the network's or a copy's; the message is
	// fine and is tried again; never counts against it.
	ClassTransient
	// ClassPermanent: will fail every time; give up at once.
	ClassPermanent
)

// String returns "handler", "transient" or "permanent".
func (c Class) String() string {
	switch c {
	case ClassTransient:
		return "transient"
	case ClassPermanent:
		return "permanent"
	default:
		return "handler"
	}
}

// classed is an error whose class was decided where it happened.
type classed struct {
	class Class
	err   error
}

func (e *classed) Error() string { return e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// WithClass marks err, so that [ClassOf] finds class in it. Nil stays nil.
func WithClass(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class: class, err: err}
}

// ClassOf returns the class of an error of [Store.Do]: the outermost mark set
// with [WithClass] wins. An error without a mark is the handler's.
func ClassOf(err error) Class {
	if c, ok := errors.AsType[*classed](err); ok {
		return c.class
	}
	switch {
	case isAny(err, ErrInvalid, ErrKeyReused, ErrNested, ErrTooLarge):
		return ClassPermanent
	case isAny(err, ErrInFlight, ErrCommitUnknown, ErrUnavailable, ErrSchema, context.Canceled):
		return ClassTransient
	default:
		return ClassHandler
	}
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// KeyReusedError is what [ErrKeyReused] carries.
type KeyReusedError struct {
	Consumer, Key string
	// ClaimedAt and Age are those of the claim that stands.
	ClaimedAt time.Time
	Age       time.Duration
}

// Error says when the key was claimed, and the ways out. Like every error of
// [Store.Do] it leaves it to the caller, who made the claim, to name it.
func (e *KeyReusedError) Error() string {
	return fmt.Sprintf("the key was already claimed with another payload at %s (%s ago): "+
		"use a key that tells the two operations apart, a fingerprint over the fields that matter, or another fingerprint policy (warn, off)",
		e.ClaimedAt.UTC().Format(time.RFC3339Nano), e.Age.Round(time.Millisecond))
}

// Is reports whether target is [ErrKeyReused].
func (e *KeyReusedError) Is(target error) bool { return target == ErrKeyReused }

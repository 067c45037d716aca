package once

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-once/watermill-once/store"
)

// Sentinels of this package, to be asked for with [errors.Is]. Those that the
// store decides are its own: store.ErrInFlight, store.ErrKeyReused,
// store.ErrNested, store.ErrCommitUnknown, store.ErrUnavailable and others.
var (
	// ErrNoTx: the context carries no transaction of a guard, or one that has
	// ended. There is no fallback to the pool.
	ErrNoTx = errors.New("no transaction of a guard in this context: pass msg.Context(), register guard.Plugin before Run, and in a test use once.WithTx")

	// ErrNoKey: the message has no key: it is empty or blank, or the [KeyFunc]
	// failed or panicked. Permanent. No statement was sent.
	ErrNoKey = errors.New("the message has no key")

	// ErrNoFingerprint: the [FingerprintFunc] failed, panicked or returned more
	// than the store keeps. Permanent. No statement was sent.
	ErrNoFingerprint = errors.New("the message has no fingerprint")

	// ErrOutputs: a message that the handler returned or published could not be
	// kept until it is sent: the handler has no publisher, or none that the
	// plugin decorated; the message is nil or has no topic; it was published
	// without the attempt's context or after the attempt ended. All is rolled
	// back.
	ErrOutputs = errors.New("the handler's outputs cannot be kept")

	// ErrUnsent: the work is committed, but one of its outputs could not be
	// sent yet. Transient: the redelivery, a duplicate, sends it, or the relay.
	ErrUnsent = errors.New("committed, but an output could not be sent")

	// ErrNoPublisher: the guard knows no publisher for an output's topic: see
	// [Guard.Relay].
	ErrNoPublisher = errors.New("no publisher")

	// ErrChain: a middleware stands where it would break the promise. No
	// handler runs. Transient, because no message is at fault: the error says
	// what to move where.
	ErrChain = errors.New("the middlewares are in the wrong order")

	// ErrConfig: a setting can never work. Returned by [New], [Guard.Plugin]
	// and [Guard.Start]; for a message (a handler without a name, one consumer
	// under two handlers) it is transient, because no message is at fault.
	ErrConfig = errors.New("once: the configuration cannot work")

	// ErrClosed: the guard is closed, or is being closed, and takes no new
	// attempt. Transient.
	ErrClosed = errors.New("the guard is closed")
)

// Permanent marks an error of a handler as one that will come every time, so
// that whoever asks [IsPermanent] may give up on the message at once. A fault
// of the database in the same attempt goes before it. Nil stays nil.
func Permanent(err error) error { return store.WithClass(store.ClassPermanent, err) }

// IsPermanent reports whether err will come again on every attempt: a message
// without a key, a key used for another payload, or what a handler marked with
// [Permanent]. It may be asked of any error, however it was wrapped.
func IsPermanent(err error) bool { return err != nil && classOf(err) == store.ClassPermanent }

// IsTransient reports whether err is no fault of the message or its handler:
// the store is away, a copy is in flight, the attempt was cancelled, the
// database asked to try again. It must never count against the message. It may
// be asked of any error, however it was wrapped.
func IsTransient(err error) bool { return err != nil && classOf(err) == store.ClassTransient }

// Poison reports whether a message that failed with err may be given up on. It
// is the filter for Watermill's PoisonQueueWithFilter, which would otherwise
// empty a topic into the dead letters while the database is away for a minute:
//
//	middleware.PoisonQueueWithFilter(publisher, "dead-letters", once.Poison)
//
// It is true for permanent errors and for those of the handler, false for nil,
// for transient errors and for everything that carries [context.Canceled], also
// when they were wrapped with fmt or pkg/errors, joined, or recovered from a
// panic by Watermill's Recoverer.
//
// A middleware between the poison queue and the guard may fail with errors of
// its own (a circuit breaker that is open): those count as the handler's.
func Poison(err error) bool {
	return err != nil && !isCanceled(err) && classOf(err) != store.ClassTransient
}

// classOf is store.ClassOf that also looks at the value of a recovered panic.
func classOf(err error) store.Class {
	class := store.ClassOf(err)
	if class != store.ClassHandler {
		return class
	}
	if cause := recovered(err); cause != nil {
		return classOf(cause)
	}
	return class
}

func isCanceled(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	cause := recovered(err)
	return cause != nil && isCanceled(cause)
}

// recovered returns the error that a handler panicked with, when err comes from
// Watermill's Recoverer, whose error type does not unwrap.
func recovered(err error) error {
	var p middleware.RecoveredPanicError
	if !errors.As(err, &p) {
		return nil
	}
	cause, _ := p.V.(error)
	return cause
}

// attemptError says which message of which consumer failed; it is the one layer
// that the guard adds. Its text is bounded and plain, because a poison queue
// writes it into a header, which a broker refuses if it is too long; what it
// wraps is whole, and is what the log gets.
type attemptError struct {
	consumer, key string
	err           error
}

func (e *attemptError) Error() string { return plain(e.whole(), maxText) }

func (e *attemptError) whole() string {
	switch { // some messages are refused before they have names
	case e.consumer == "":
		return e.err.Error()
	case e.key == "":
		return fmt.Sprintf("consumer %q: %v", e.consumer, e.err)
	default:
		return fmt.Sprintf("consumer %q, key %q: %v", e.consumer, brief(e.key), e.err)
	}
}

func (e *attemptError) Unwrap() error { return e.err }

const (
	// maxShown bounds a key in errors and logs, maxText the text of an error,
	// maxLogged that of an error in the log, in bytes.
	maxShown  = 128
	maxText   = 1 << 10
	maxLogged = 64 << 10
)

// wholeText is what the log says of an error.
func wholeText(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*attemptError](err); ok {
		return plain(e.whole(), maxLogged)
	}
	return plain(err.Error(), maxLogged)
}

// plain makes s text that every broker and table takes: valid UTF-8 without NUL,
// no longer than most bytes.
func plain(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= most {
		return s
	}
	end := fmt.Sprintf("… (%d bytes)", len(s))
	return upTo(s, most-len(end)) + end
}

// brief shortens s for people.
func brief(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", upTo(s, maxShown), len(s))
}

// upTo cuts s, never inside a character.
func upTo(s string, most int) string {
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

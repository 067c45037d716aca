package once

import (
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// Event is what an [Observer] receives. The set is closed: [AttemptEnded],
// [AttemptHeld], [KeyReused], [TxUnused], [HookFailed], [ChainProblem],
// [OutputFailed], [MarkFailed], [Relayed], [Started], [StoreWeak], [PoolSmall],
// [Purged] and [Closed]. New ones may be added; an observer ignores those that
// it does not know.
type Event interface{ event() }

// Subject is what an event is about. Consumer, Handler and Topic are few and
// may label a metric. UUID and Key are there for logs and traces and must never
// be a label: every message has its own.
type Subject struct {
	// Consumer is the name that the claim was made for.
	Consumer string
	// Handler and Topic are the router's. In [Guard.Do] Handler is the name
	// that it was given, and Topic is empty.
	Handler, Topic string
	// UUID is the message's, empty in [Guard.Do].
	UUID string
	// Key is what the message was claimed under. Empty when it has none.
	Key string
}

// AttemptEnded comes once for each attempt, before the back-off, whatever its
// end.
type AttemptEnded struct {
	Subject
	Outcome Outcome
	// Err is what the guard returns, nil when the message is acknowledged. For
	// [Panicked] it says what the handler panicked with, for [Dropped] it is the
	// error that was hidden.
	Err error
	// Class is that of Err; it says nothing when Err is nil.
	Class store.Class
	// Took is the time in the guard, without the back-off.
	Took time.Duration
	// Waited is the part of it that was spent waiting for a slot of the
	// limiter, Held the part between tries while the store was not available.
	Waited, Held time.Duration
	// Backoff is how long the guard waits before it returns Err.
	Backoff time.Duration
	// Failures counts how often in a row this process saw the message fail.
	Failures int
	// ClaimedAt and Age tell when the claim of a [Duplicate] or [Reused] was
	// made and how long ago, by the database's clock. The largest Age is what
	// the retention has to exceed.
	ClaimedAt time.Time
	Age       time.Duration
	// Retries counts the fresh transactions that the claim needed.
	Retries int
	// Outputs counts what the attempt stored, or what a duplicate had to send;
	// fewer when one could not be sent, which is [Unsent].
	Outputs int
}

// AttemptHeld comes each time that an attempt waits because the store is not
// available. The handler did not run.
type AttemptHeld struct {
	Subject
	Err error
	// Wait is how long until the next try, Held how long it was held already.
	Wait, Held time.Duration
}

// KeyReused comes when another payload under a claimed key was taken for a
// duplicate because of [FingerprintWarn].
type KeyReused struct {
	Subject
	ClaimedAt time.Time
	Age       time.Duration
}

// TxUnused comes when a handler succeeded without one statement on its
// transaction: its writes, if it has any, are not protected. It is the most
// common way to get this wrong.
type TxUnused struct{ Subject }

// HookFailed comes when a function given to [AfterCommit] panicked. The writes
// are committed, and the other functions run.
type HookFailed struct {
	Subject
	// Panic is what it panicked with, Stack where.
	Panic any
	Stack []byte
}

// OutputFailed comes each time that an output could not be sent. It is stored
// and will be tried again, unless it is dead.
type OutputFailed struct {
	// Consumer and Topic may label a metric; UUID is the output's own.
	Consumer, Topic, UUID string
	ID                    store.OutputID
	Err                   error
	// Attempts is how many failures counted before this one.
	Attempts int
	// Relayed tells the relay from an attempt. Only then: Retry is how long
	// until the next try, and Dead says that there is none: see
	// [Guard.DeadOutputs].
	Relayed bool
	Retry   time.Duration
	Dead    bool
}

// MarkFailed comes when outputs that were sent could not be marked. They are
// marked later; a crash before that has them sent again.
type MarkFailed struct {
	// Waiting is how many are to be marked.
	Waiting int
	Err     error
}

// Relayed comes after each run of the relay that found something.
type Relayed struct {
	// Sent were sent, Failed were not and will be tried again, Dead were given
	// up on.
	Sent, Failed, Dead int
	Took               time.Duration
	// Err says why the run ended early, such as a store that is not available.
	Err error
}

func (r *Relayed) count(f store.Failure) {
	if f.Dead {
		r.Dead++
		return
	}
	r.Failed++
}

// ChainProblem comes when the guard notices that something around it weakens
// the promise.
type ChainProblem struct {
	Subject
	// Problem is a short name, fit for a label.
	Problem Problem
	// Detail says what was seen, Fix what to do.
	Detail, Fix string
}

// Problem names what a [ChainProblem] is about.
type Problem string

// The problems.
const (
	// Misplaced: a middleware inside the guard weakens it.
	Misplaced Problem = "misplaced"
	// SettledBefore: the message was acked or nacked before the guard got it.
	SettledBefore Problem = "settled_before"
	// SettledInside: the handler acked the message before the commit.
	SettledInside Problem = "settled_inside"
	// DeadOnArrival: the deadline of the message's context had passed before
	// the guard got it.
	DeadOnArrival Problem = "dead_on_arrival"
)

// Started comes once, when the guard has verified its store.
type Started struct{ Service string }

// StoreWeak comes at start for each setting of the database that weakens the
// promise.
type StoreWeak struct{ store.Finding }

// PoolSmall comes at start when the pool has no connection to spare for
// handlers that need a second one: attempts may wait for each other until their
// waits are over.
type PoolSmall struct{ MaxOpen, Limit int }

// Purged comes after each purge.
type Purged struct {
	Deleted int64
	Took    time.Duration
	// Err says why it ended early. It is store.ErrPurgeSuspicious when the
	// purge would have taken nearly everything, or the database's clock jumped.
	Err error
}

// Closed comes once, at the end of [Guard.Close].
type Closed struct {
	// Left counts the attempts that did not end in time.
	Left int
	Took time.Duration
}

func (AttemptEnded) event() {}
func (AttemptHeld) event()  {}
func (KeyReused) event()    {}
func (TxUnused) event()     {}
func (HookFailed) event()   {}
func (OutputFailed) event() {}
func (MarkFailed) event()   {}
func (Relayed) event()      {}
func (ChainProblem) event() {}
func (Started) event()      {}
func (StoreWeak) event()    {}
func (PoolSmall) event()    {}
func (Purged) event()       {}
func (Closed) event()       {}

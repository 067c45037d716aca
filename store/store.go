package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// Store claims messages and runs handlers in the claim's transaction.
//
// An implementation is safe for concurrent use by many goroutines and by many
// processes on one database. Its errors answer to [ClassOf]; an error that it
// cannot place is [ClassTransient], because a message must never be given up
// on for a fault of the store.
type Store interface {
	// Do claims c. When the claim is new it runs fn in the claim's
	// transaction, stores the outputs that fn returned, and commits; a nil
	// error then means that claim, writes and outputs are durable together.
	// When the claim exists already, fn does not run, nothing is written and
	// Result.Duplicate is true.
	//
	// A copy in flight elsewhere is waited for at most c.Wait, then Do fails
	// with [ErrInFlight]. Do never runs fn twice, and never again after an
	// answer to COMMIT was lost: that is [ErrCommitUnknown], and the next
	// attempt's claim decides. An error or a panic of fn, and a
	// [runtime.Goexit], roll everything back; the panic goes on.
	//
	// When ctx ends before fn has returned nil, everything is rolled back.
	// Once fn has returned nil the commit no longer depends on ctx: it runs
	// for at most c.Bounds.Commit.
	//
	// fn gets a context that carries the attempt (see [InAttempt]) and must not
	// keep it, or the transaction, after it returned.
	Do(ctx context.Context, c Claim, fn Func) (Result, error)

	// Purge deletes claims older than p.Retention in small batches, each in a
	// transaction of its own, and returns how many it deleted, also when it
	// fails half-way. It does nothing while another purger is at work, and
	// ends with ctx.
	Purge(ctx context.Context, p Purge) (deleted int64, err error)

	Outbox
}

// Func is the part of an attempt that runs in the claim's transaction. The
// outputs that it returns are stored with the claim: all of them, or nothing is
// committed. One without a topic is [ErrInvalid], one that the database can never
// take [ErrTooLarge]; both before anything of them is sent.
type Func func(ctx context.Context, tx *sqlx.Tx) ([]Output, error)

// Claim is what [Store.Do] claims: one message for one consumer.
type Claim struct {
	// Consumer is the named logical receiver, "service/handler". Required,
	// valid UTF-8 without control characters, at most 255 bytes.
	Consumer string
	// Key identifies the message for the consumer. Required; any bytes of any
	// length; compared byte for byte.
	Key string
	// Fingerprint is a hash of the payload, kept with the claim and compared
	// on a duplicate: another one is [ErrKeyReused]. Nil is not compared. At
	// most 64 bytes.
	Fingerprint []byte
	// Wait bounds the wait for a copy in flight. Default 5 s. A dialect may
	// refuse what its database cannot express (MySQL: whole seconds only).
	Wait time.Duration
	// Outputs says that the consumer has outputs: a duplicate then looks for
	// those that are unsent. Without it a duplicate costs nothing more, and what
	// an earlier version of the consumer left unsent is sent by the relay.
	Outputs bool
	// Bounds are the other time limits of the attempt.
	Bounds Bounds
}

// Bounds are the time limits of the store's own work in one attempt. They
// also hold against a server that says nothing at all. The zero value of each
// means its default.
type Bounds struct {
	// Acquire bounds the wait for a connection of the pool. Default 5 s.
	Acquire time.Duration
	// Commit bounds COMMIT; past it the outcome is unknown. Default 10 s.
	Commit time.Duration
	// Rollback bounds ROLLBACK; past it the connection is discarded, which
	// rolls back too. Default 5 s.
	Rollback time.Duration
}

// The defaults of [Claim] and [Bounds].
const (
	DefaultWait     = 5 * time.Second
	DefaultAcquire  = 5 * time.Second
	DefaultCommit   = 10 * time.Second
	DefaultRollback = 5 * time.Second
)

// Result says how [Store.Do] ended. Beside [ErrKeyReused] it is filled as for
// a duplicate, so that a caller may decide to treat the message as one.
type Result struct {
	// Duplicate is true when the key already had a committed claim.
	Duplicate bool
	// ClaimedAt is when the claim was made and Age how long ago that was,
	// both by the database's clock. They are set for a duplicate.
	ClaimedAt time.Time
	Age       time.Duration
	// Unsent are the outputs that were not marked as sent, in the order in which
	// the handler produced them: those that fn returned when the claim is new,
	// and for a duplicate those that are left, if Claim.Outputs asked for them.
	// Metadata and payloads of a new claim are the handler's own, not copies.
	Unsent []Output
	// Unused is true when the claim is new and fn sent no statement on its
	// transaction: the most common way to get this wrong. It stays false where
	// the store cannot know it (see [Direct]).
	Unused bool
	// Retries counts the fresh transactions that the claim needed because the
	// database asked for them (serialization failure, deadlock) before fn ran.
	Retries int
}

// Purge tells [Store.Purge] what may go.
type Purge struct {
	// Retention is how old a claim must be, by the database's clock. It is the
	// dedup window. Required, positive.
	Retention time.Duration
	// Batch is how many claims one transaction deletes. Default 1 000; halved
	// while the database is slow.
	Batch int
	// Confirm lets a purge go on that would otherwise stop with
	// [ErrPurgeSuspicious] because it would take nearly everything or because
	// the database's clock jumped. For an operator, never for a timer.
	Confirm bool
}

// DefaultPurgeBatch is the default of [Purge.Batch].
const DefaultPurgeBatch = 1000

// Found is a claim as [SQL.Lookup] shows it.
type Found struct {
	Consumer    string
	Key         string
	Fingerprint []byte
	ClaimedAt   time.Time
	Age         time.Duration
}

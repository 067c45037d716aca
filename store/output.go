package store

import (
	"context"
	"time"
)

// OutputID identifies one stored output: its claim and its place among the
// claim's outputs, since two outputs may carry one UUID.
type OutputID int64

// Output is a message that a handler produced. It is stored with the claim and
// deleted once it was sent.
type Output struct {
	// ID is set by the store.
	ID OutputID
	// UUID, Topic, Metadata and Payload are the message, byte for byte.
	UUID, Topic string
	Metadata    map[string]string
	Payload     []byte
	// Returned tells a message that the handler returned from one that it
	// published.
	Returned bool

	// Consumer is whose claim the output belongs to, and Attempts how many
	// failures to send it count. The store sets them where it hands outputs out.
	Consumer string
	Attempts int
}

// Outbox is the part of a [Store] that keeps outputs until they are sent. An
// output that is sent twice is harmless (it carries one UUID); one that is
// deleted without having been sent is lost.
//
// Its methods do not belong into an attempt: a store whose database has one
// writer refuses them there ([ErrNested]). They end with ctx, and after a time of
// their own against a server that says nothing; every error but these two of
// misuse (the other is [ErrInvalid]) is transient.
type Outbox interface {
	// MarkSent deletes outputs that were sent, in few statements. Ids that are
	// gone are no error.
	MarkSent(ctx context.Context, ids ...OutputID) error

	// LeaseUnsent hands out unsent outputs, the oldest first, so that nobody
	// else is handed them until the lease is over. It never waits for others'
	// leases or transactions, and finds an output whatever the order in which
	// outputs were committed. Dead ones are not handed out.
	LeaseUnsent(ctx context.Context, l Lease) ([]Output, error)

	// Postpone ends the leases of outputs that were not sent.
	Postpone(ctx context.Context, failures ...Failure) error
}

// Lease tells [Outbox.LeaseUnsent] what to hand out.
type Lease struct {
	// Limit is the largest number of outputs. Default 100.
	Limit int
	// Bytes bounds the sum of their sizes; one that is larger comes alone.
	// Default 8 MiB.
	Bytes int64
	// Services are those whose consumers' outputs are handed out: several may
	// keep theirs in the same tables, and send them elsewhere. None: all.
	Services []string
	// Older is how old an output must be, by the database's clock, so that the
	// attempt that stored it can send it first. Zero: any.
	Older time.Duration
	// For is how long nobody else is handed them. Required, positive.
	For time.Duration
}

// The defaults of [Lease].
const (
	DefaultLeaseLimit = 100
	DefaultLeaseBytes = 8 << 20
)

// Failure says what became of an output that was not sent.
type Failure struct {
	ID OutputID
	// After is how long from now nobody is handed it. Not negative.
	After time.Duration
	// Counted adds one to its attempts.
	Counted bool
	// Dead gives up on it: it is kept, listed by [OutboxInspector.DeadOutputs],
	// and not handed out any more.
	Dead bool
	// Reason is kept with it, cut to 1 KiB of valid UTF-8. Empty leaves the one
	// before.
	Reason string
}

// OutboxInspector shows and revives outputs, for an operator.
type OutboxInspector interface {
	// Backlog counts what is stored.
	Backlog(ctx context.Context) (Backlog, error)
	// DeadOutputs lists at most limit outputs that were given up on, the oldest
	// first.
	DeadOutputs(ctx context.Context, limit int) ([]DeadOutput, error)
	// ReviveOutputs lets dead outputs be sent again, with no attempts counted,
	// and returns how many there were. No ids: all of them.
	ReviveOutputs(ctx context.Context, ids ...OutputID) (int64, error)
	// DropOutputs deletes dead outputs, which are lost then, and returns how
	// many there were. Without ids it does nothing.
	DropOutputs(ctx context.Context, ids ...OutputID) (int64, error)
}

// Backlog counts stored outputs.
type Backlog struct {
	// Unsent are those that will be sent, Dead those that were given up on.
	Unsent, Dead int64
	// Oldest is the age of the oldest unsent one, by the database's clock.
	Oldest time.Duration
}

// DeadOutput is an output that was given up on.
type DeadOutput struct {
	Output
	DiedAt time.Time
	Reason string
}

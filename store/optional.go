package store

import "context"

// A Store may do more than the contract asks. The guard looks for these
// interfaces and does without where they are missing; [SQL] has them all.
type (
	// Validator says before any message came whether a claim like c, but for
	// its key, can work here: consumer, wait, and the store's own settings.
	// The error is [ErrInvalid] and names the setting and the fix.
	Validator interface{ Validate(c Claim) error }

	// Verifier looks at the database: an error is a reason not to start
	// ([ErrSchema], [ErrUnavailable]), a finding a reason to worry.
	Verifier interface {
		Verify(ctx context.Context) ([]Finding, error)
	}

	// Pinger says whether a claim could be made now.
	Pinger interface {
		Ping(ctx context.Context) error
	}

	// Pooled tells how many connections the pool may open; 0 is unlimited.
	Pooled interface{ MaxOpenConns() int }

	// Inspector shows and removes single claims, for an operator.
	Inspector interface {
		// Lookup finds a claim by the key's original bytes.
		Lookup(ctx context.Context, consumer, key string) (Found, bool, error)
		// Forget removes a claim with the outputs that are left of it, so that
		// the message may run again, and reports whether there was one.
		Forget(ctx context.Context, consumer, key string) (bool, error)
	}
)

// Finding is something about the database that weakens the promise without
// breaking it at once, such as a durability setting.
type Finding struct {
	// Setting names what was looked at, as the database calls it.
	Setting string
	// Value is what it is set to.
	Value string
	// Problem says what may be lost and Fix what to do.
	Problem, Fix string
}

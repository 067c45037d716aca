package once

import (
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/store"
)

// Config is what [New] needs to know. Zero means the default:
//
//	Service            required
//	Key                UUID
//	Fingerprint        SHA-256 of the payload
//	FingerprintPolicy  FingerprintReject
//	When               every message
//	Wait               5 s
//	AcquireWait        5 s
//	Commit             10 s
//	Rollback           5 s
//	Limit              16
//	BackoffMin         100 ms
//	BackoffMax         30 s
//	FailingKeys        10 000
//	Redelivery         unknown
//	Hold               30 s, or half of Redelivery where that is less
//	Drain              30 s
//	PurgeEvery         1 min
//	PurgeBatch         1 000
//	Retention          15 days
//	RelayEvery         5 s
//	RelayAge           30 s
//	RelayLease         60 s
//	RelayBatch         100
//	RelayAttempts      20
//	Observer           SlogObserver(Logger)
//	Logger             slog.Default() when it is used
//
// A value that can never work is refused by [New], never adjusted.
type Config struct {
	// Service is the first part of every consumer's name, "service/handler".
	// It is part of each claim: a changed service has handled nothing yet.
	// Required, without "/".
	Service string

	// Handlers holds settings for single handlers, looked up by the name that
	// was given to AddHandler. A name that the router does not have is an error
	// of [Guard.Plugin], so a guard with such settings serves one router.
	Handlers map[string]HandlerConfig

	// Key tells what identifies a message. Default [UUID].
	Key KeyFunc

	// Fingerprint is kept with a claim to tell a duplicate from another message
	// that came under the same key. Default: SHA-256 of the payload.
	Fingerprint FingerprintFunc

	// FingerprintPolicy says what happens to another payload under a key that
	// was claimed. Default [FingerprintReject].
	FingerprintPolicy FingerprintPolicy

	// When reports whether a message is for the handler. A message for which it
	// is false is acknowledged without a claim and without a statement. It is
	// called concurrently. Default: every message is.
	When func(msg *message.Message) bool

	// Wait bounds the wait for a copy of the message that is in flight
	// elsewhere. Some databases take whole seconds only. Default 5 s.
	Wait time.Duration

	// AcquireWait bounds the wait for a connection of the pool. Default 5 s.
	AcquireWait time.Duration

	// Commit bounds COMMIT; past it the outcome is unknown. Default 10 s.
	Commit time.Duration

	// Rollback bounds ROLLBACK; past it the connection is given up, which rolls
	// back too. Default 5 s.
	Rollback time.Duration

	// Limit is how many attempts run at once, over all handlers, routers and
	// [Guard.Do]. Keep the pool larger than it. Default 16.
	Limit int

	// BackoffMin and BackoffMax bound how long the guard waits before it
	// returns an error, and so how fast a failing message comes again. The wait
	// doubles with each failure of the same message and is spread by ±50 %.
	// Defaults 100 ms and 30 s; where only one is set and lies beyond the
	// other's default, both are the same.
	BackoffMin, BackoffMax time.Duration

	// FailingKeys is how many failing messages are remembered for the back-off;
	// the one that failed longest ago is forgotten first. Default 10 000.
	FailingKeys int

	// Hold bounds how long a message is kept, and tried again, while the store
	// is not available. Default 30 s, at most half of Redelivery.
	Hold time.Duration

	// Redelivery is the time after which the broker gives a message that was
	// not settled to someone else (SQS: the visibility timeout; RabbitMQ: the
	// consumer timeout). Holding and backing off together take at most half of
	// it. Default: unknown.
	Redelivery time.Duration

	// Drain is how long an attempt whose message was cancelled, as a router
	// does when it closes, may go on, and how long [Guard.Close] waits for the
	// attempts in flight. Default 30 s.
	Drain time.Duration

	// PurgeEvery is the pause between two purges of old claims, spread by
	// ±50 %. Negative: this guard never purges. Default 1 min.
	PurgeEvery time.Duration

	// PurgeBatch is how many claims one transaction of a purge deletes.
	// Default 1 000.
	PurgeBatch int

	// Retention is how long claims are kept. It is the dedup window: a
	// duplicate that is older runs the handler again. Keep it longer than the
	// broker keeps messages. Default 15 days.
	Retention time.Duration

	// RelayEvery is the pause after which the relay looks for outputs that
	// nobody else sends, spread by ±50 %. It is also the first wait of an output
	// that failed. Negative: this guard has no relay; then some other guard over
	// the same tables needs one. Default 5 s.
	RelayEvery time.Duration

	// RelayAge is how old an output has to be for the relay: until then its
	// attempt, or a redelivery, may send it. Default 30 s.
	RelayAge time.Duration

	// RelayLease is how long outputs that one relay sends are kept from others.
	// Default 60 s.
	RelayLease time.Duration

	// RelayBatch is how many outputs the relay leases at once. Default 100.
	RelayBatch int

	// RelayAttempts is how many failures make an output dead. A failure counts
	// only if its publisher sent something else since the one before, so that an
	// outage kills nothing; an error marked as permanent makes it dead at once.
	// Default 20: hours, as the waits between them grow to 15 minutes.
	RelayAttempts int

	// Observer receives the guard's events. Nil: [SlogObserver] with Logger.
	// [NopObserver] turns events off.
	Observer Observer

	// Logger is for the default observer. Default: slog.Default() at the time
	// of each event.
	Logger *slog.Logger
}

// The defaults of [Config] that are not the store's.
const (
	DefaultLimit       = 16
	DefaultBackoffMin  = 100 * time.Millisecond
	DefaultBackoffMax  = 30 * time.Second
	DefaultFailingKeys = 10_000
	DefaultHold        = 30 * time.Second
	DefaultDrain       = 30 * time.Second
	DefaultPurgeEvery  = time.Minute
	DefaultRetention   = 15 * 24 * time.Hour

	DefaultRelayEvery    = 5 * time.Second
	DefaultRelayAge      = 30 * time.Second
	DefaultRelayLease    = time.Minute
	DefaultRelayAttempts = 20
)

// withDefaults returns a copy in which zero is replaced by the default. Hold is
// left to the handlers' settings, because its default depends on Redelivery.
func (c Config) withDefaults() Config {
	orDefault(&c.Wait, store.DefaultWait)
	orDefault(&c.AcquireWait, store.DefaultAcquire)
	orDefault(&c.Commit, store.DefaultCommit)
	orDefault(&c.Rollback, store.DefaultRollback)
	orDefault(&c.Limit, DefaultLimit)
	if c.BackoffMin == 0 {
		c.BackoffMin = DefaultBackoffMin
		if c.BackoffMax > 0 {
			c.BackoffMin = min(c.BackoffMin, c.BackoffMax)
		}
	}
	orDefault(&c.BackoffMax, max(DefaultBackoffMax, c.BackoffMin))
	orDefault(&c.FailingKeys, DefaultFailingKeys)
	orDefault(&c.Drain, DefaultDrain)
	orDefault(&c.PurgeEvery, DefaultPurgeEvery)
	orDefault(&c.PurgeBatch, store.DefaultPurgeBatch)
	orDefault(&c.Retention, DefaultRetention)
	orDefault(&c.RelayEvery, DefaultRelayEvery)
	orDefault(&c.RelayAge, DefaultRelayAge)
	orDefault(&c.RelayLease, DefaultRelayLease)
	orDefault(&c.RelayBatch, store.DefaultLeaseLimit)
	orDefault(&c.RelayAttempts, DefaultRelayAttempts)
	orDefault(&c.FingerprintPolicy, FingerprintReject)
	if c.Key == nil {
		c.Key = UUID
	}
	if c.Observer == nil {
		c.Observer = SlogObserver(c.Logger)
	}
	return c
}

// validate looks at a Config with its defaults and names everything that is
// wrong with it at once.
func (c Config) validate() error {
	var p problems
	p.service(c.Service)
	p.duration("Wait", c.Wait)
	p.duration("AcquireWait", c.AcquireWait)
	p.duration("Commit", c.Commit)
	p.duration("Rollback", c.Rollback)
	p.duration("BackoffMin", c.BackoffMin)
	p.duration("BackoffMax", c.BackoffMax)
	p.duration("Hold", c.Hold)
	p.duration("Redelivery", c.Redelivery)
	p.duration("Drain", c.Drain)
	p.duration("PurgeEvery", max(c.PurgeEvery, 0))
	p.duration("Retention", c.Retention)
	p.duration("RelayEvery", max(c.RelayEvery, 0))
	p.duration("RelayAge", c.RelayAge)
	p.duration("RelayLease", c.RelayLease)
	p.count("RelayBatch", c.RelayBatch)
	p.count("RelayAttempts", c.RelayAttempts)
	p.count("Limit", c.Limit)
	p.count("FailingKeys", c.FailingKeys)
	p.count("PurgeBatch", c.PurgeBatch)
	p.policy("FingerprintPolicy", c.FingerprintPolicy)
	if c.BackoffMin > c.BackoffMax {
		p.add("BackoffMin %s is longer than BackoffMax %s: swap them", c.BackoffMin, c.BackoffMax)
	}
	return p.err()
}

func orDefault[T comparable](field *T, value T) { *field = orValue(*field, value) }

func orValue[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

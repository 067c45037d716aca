package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// Dialect is what differs between databases: SQL text, error codes, and how a
// driver begins and commits. It holds no connection and decides nothing about
// a message. It is implemented by the packages postgres, mysql and sqlite and
// not meant for others; a store over something else implements [Store].
type Dialect interface {
	// Name is "postgres", "mysql" or "sqlite".
	Name() string
	// Drivers are the database/sql driver names that the dialect was made for.
	Drivers() []string
	// Quote quotes an identifier that [WithPrefix] or [WithSchema] validated.
	Quote(name string) string
	// Migrations holds the numbered .sql files, one step each.
	Migrations() fs.FS
	// Grants are the least rights of a role that runs attempts, with the same
	// placeholders as the migrations and {{role}}.
	Grants() string
	// CommitsDDL: each DDL commits by itself, so a step cannot be rolled back.
	CommitsDDL() bool
	// OneWriter: the database has one writer at a time, so attempts queue here
	// instead of in its lock.
	OneWriter() bool

	// CheckWait refuses a claim wait that the database cannot express.
	CheckWait(wait time.Duration) error
	// Isolation returns the level to begin with; an error names a level that
	// the database has not.
	Isolation(level sql.IsolationLevel) (sql.IsolationLevel, error)
	// Now is an SQL expression for the database's clock, or for t when given.
	Now(t *time.Time) string

	// Rules are the guarded connection's rules. limit reads the server's limit
	// that Inspect found.
	Rules(limit func() int64) guarded.Rules
	// Inspect reads what the engine must know of the server and looks for
	// settings that weaken the promise. An error is one with which no claim
	// can work.
	Inspect(ctx context.Context, db *sqlx.DB, level sql.IsolationLevel) (Server, []Finding, error)

	// Session speaks on one borrowed connection.
	Session(c *guarded.Conn, n *Names, level sql.IsolationLevel) Session
	// Claim inserts the claim, waiting at most row.Wait for a copy in flight,
	// in the open transaction, and reports whether it is new.
	Claim(ctx context.Context, q Querier, n *Names, row *Row) (claimed bool, err error)
	// Find reads the claim that stands.
	Find(ctx context.Context, q Querier, n *Names, row *Row) (standing Standing, found bool, err error)
	// Settle makes a young claim of another transaction safe: see
	// Standing.Unsafe. It runs outside of any transaction.
	Settle(ctx context.Context, q Querier) error

	// Fault reads the error code of err.
	Fault(err error) Fault
	// CommitRefused reports whether err, from COMMIT, says that the server
	// rolled back for sure, and what err means there.
	CommitRefused(err error) (bool, Fault)
	// TableLocked tells a lock on the whole table from one on the claim's row,
	// after a claim that ended with FaultLockWait.
	TableLocked(ctx context.Context, q Querier, n *Names, err error) bool

	// Purging are the statements of the purge.
	Purging(n *Names) Purging
	// Begin are the statements that begin a transaction of the engine's own,
	// outside of any attempt.
	Begin(level sql.IsolationLevel) []string
	// Migrator tells how migrations are locked and bounded.
	Migrator(n *Names) Migrator

	OutboxDialect
}

// Session begins, claims and ends on one borrowed connection.
type Session interface {
	guarded.Session
	// Begin begins a transaction and claims in it, in as few round trips as
	// the driver allows. Nil and nil: the claim is new and the transaction
	// open. Otherwise the transaction is to be rolled back, if it is not
	// already; the error is [ErrVanished] when a claim stood in the way but
	// cannot be read.
	Begin(ctx context.Context, row *Row) (*Standing, error)
	// Keep hands over the outputs that Commit is to store before it commits. An
	// error of Commit is a [NotKeptError] when they could not be stored and COMMIT was
	// certainly not carried out.
	Keep(b *Batch)
}

// Breaker is a [Session] whose connection has to be closed by hand when it must
// not be used again, because closing the pool's would not.
type Breaker interface{ Break() }

// ErrVanished: a claim stood in the way and was gone, or is not visible to this
// transaction. A fresh transaction will tell.
var ErrVanished = errors.New("the claim that stood in the way is gone")

// ClaimOrFind claims in the open transaction of q, or reads the claim that
// stands: [Session.Begin] for a driver that takes one statement at a time.
func ClaimOrFind(ctx context.Context, d Dialect, q Querier, n *Names, row *Row) (*Standing, error) {
	claimed, err := d.Claim(ctx, q, n, row)
	if claimed || err != nil {
		return nil, err
	}
	standing, found, err := d.Find(ctx, q, n, row)
	if err == nil && !found {
		err = ErrVanished
	}
	if err != nil {
		return nil, err
	}
	return &standing, nil
}

// Querier runs a statement of the engine's own: on a borrowed connection, or
// through sqlx. Placeholders are the database's native ones. Destinations are
// *int64, *bool, *string and *[]byte; NULL leaves them as they are.
type Querier interface {
	Exec(ctx context.Context, query string, args ...any) (affected int64, err error)
	// ExecPrepared is Exec, but never lets the driver write the arguments out
	// into the text.
	ExecPrepared(ctx context.Context, query string, args ...any) (affected int64, err error)
	QueryRow(ctx context.Context, query string, args []any, dest ...any) (found bool, err error)
	// QueryRows stores each row in dest and calls row for it.
	QueryRows(ctx context.Context, query string, args, dest []any, row func() error) error
}

// Row is a claim as the database sees it.
type Row struct {
	Consumer    string
	Key         []byte // encoded, see EncodeKey
	Fingerprint []byte
	Wait        time.Duration
	Now         string // SQL expression
	Outputs     bool   // a duplicate is asked for its outputs
	Server      Server
}

// Standing is a claim that was found.
type Standing struct {
	ClaimedAtMicros, AgeMicros int64
	Fingerprint                []byte
	// Unsafe: the claim is visible, but a crash of the primary may still lose
	// it, because its commit did not wait for the standby to the end.
	Unsafe bool
	// Unsent are the outputs that are left, if Row.Outputs asked for them and
	// Asked says that they were looked for.
	Unsent []Output
	Asked  bool
}

// Server is what Inspect found.
type Server struct {
	// Version as the server prints it.
	Version string
	// MaxStatement is the largest statement that the server takes, 0 if none.
	MaxStatement int64
	// Variant tells servers of one dialect apart, such as "mariadb".
	Variant string
	// Level is the isolation level that the pool's sessions begin with.
	Level sql.IsolationLevel
}

// Fault says what an error of the database means.
type Fault int

const (
	// FaultNone: not an error of the database.
	FaultNone Fault = iota
	// FaultUnknown: an error of the server that is not the statement's: it shuts
	// down, ended the session, or said a code that nobody placed.
	FaultUnknown
	// FaultConnection: the connection is dead, says the driver.
	FaultConnection
	// FaultConflict: deadlock or serialization failure; a fresh transaction
	// may succeed.
	FaultConflict
	// FaultLockWait: a lock was waited for until the bound.
	FaultLockWait
	// FaultBusy: a lock was not waited for long enough; the claim is tried
	// again until its wait is over.
	FaultBusy
	// FaultReadOnly: the server, or the transaction, only reads.
	FaultReadOnly
	// FaultStatement: the statement's own: a constraint, bad data, syntax, a
	// missing table or right.
	FaultStatement
	// FaultMissing: the table does not exist.
	FaultMissing
	// FaultSettings: the server's settings forbid the statement.
	FaultSettings
	// FaultRights: the role may not do that.
	FaultRights
)

// Purging holds the statements of a purge. The engine fills in numbers only.
type Purging struct {
	// Lock locks the purge's row without waiting, and returns what it
	// remembers (db_at, wall_at) and the database's clock in microseconds; %s
	// is the expression for now. No row: another purger is at work.
	Lock string
	// Record stores db_at and wall_at (%d, %d).
	Record string
	// Expired counts the claims before the cutoff (%d) and all of them.
	Expired string
	// Delete deletes at most %[2]d claims before the cutoff %[1]d that have no
	// outputs.
	Delete string
}

// Migrator tells how a dialect runs migrations.
type Migrator struct {
	// Bound makes the connection wait seconds, not for ever, for a table's
	// lock. It may leave a session setting: the connection is discarded.
	Bound []string
	// Table creates the table of applied steps.
	Table string
	// Lock excludes other migrators for the transaction (or the connection,
	// where DDL commits). Where it fails the steps are right without it, unless
	// LockRequired.
	Lock         string
	LockRequired bool
	// Record stores that a step (%d) was applied.
	Record string
	// Race reports whether err comes from another migrator at the same time.
	Race func(err error) bool
	// Blockers is a query whose one column describes sessions that may hold a
	// lock on our tables; empty where there is none to ask.
	Blockers string
}

package storetest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// Harness is what a dialect, with one driver and one way to connect, gives the
// suite; [Setup] makes one. Its functions are called with the test that needs
// them and clean up with that test. What is nil or zero is not to be had there,
// and the scenarios that need it are left out.
type Harness struct {
	// Dialect is the store's: "postgres", "mysql" or "sqlite".
	Dialect string
	// Driver is the name that sqlx knows the driver by. [Setup.Make] fills it in.
	Driver string
	// Open returns a store over a fresh, empty database of its own, not yet
	// migrated, with a pool of at most pool connections.
	Open func(t testing.TB, pool int, opts ...store.Option) *store.SQL
	// Again returns another store on the database of s, with a pool of its own,
	// as another process would have.
	Again func(t testing.TB, s *store.SQL, pool int, opts ...store.Option) *store.SQL
	// Wire returns a store as Open does whose pool goes through a wire proxy.
	// Nil where there is no wire. Again leads past the proxy.
	Wire func(t testing.TB, pool int, opts ...store.Option) (*store.SQL, *Wire)
	// Stub is Again with a driver between that stub lies with.
	Stub func(t testing.TB, s *store.SQL, pool int, stub *Stub, opts ...store.Option) *store.SQL
	// DSN is how another process reaches the database of s: see [Child].
	DSN func(s *store.SQL) string
	// ReadOnly is Again with connections that only read.
	ReadOnly func(t testing.TB, s *store.SQL, pool int, opts ...store.Option) *store.SQL
	// Role makes a role that may connect and do nothing else.
	Role func(t testing.TB, s *store.SQL) Role

	// Variant: only the way to the database differs from another harness, so
	// the groups about the database alone (migrations, purge) are left out.
	Variant bool
	// Direct: every store is opened with store.Direct, and a test that needs
	// the guarded connection must fail: see [Run].
	Direct bool
	// OneWriter: a handler at work makes every other attempt wait.
	OneWriter bool
	// CommitsDDL: DDL ends a transaction.
	CommitsDDL bool
	// MinWait is the shortest claim wait that the database can express.
	MinWait time.Duration
	// Levels are the isolation levels that the store takes beside its default.
	Levels []sql.IsolationLevel
	// Trips are the round trips of an attempt, beside the handler's own.
	Trips Trips
	// ConnectionID is a query for the id of the server's session, Kill a
	// statement that ends the session with that id (%d). Empty without server.
	ConnectionID, Kill string
	// Describe is a query whose one column describes all of a migrated
	// database, a row a column or index, in a fixed order.
	Describe string
	// Fault makes the driver's own error with a code, and a text in a language
	// that nobody reads.
	Fault func(code string) error
	// Refusals are the codes with which the database may refuse COMMIT because
	// of another transaction.
	Refusals []string
	// Types is the database's name of types that differ: see [Types].
	Types Types
}

// Types are the database's names for what tests need in their own tables.
type Types struct{ Text, Bytes, BigInt, Timestamp string }

// Trips are the round trips of a first attempt and of a duplicate, on a
// connection that was used before.
type Trips struct{ First, Duplicate int }

// Role is somebody without rights.
type Role struct {
	// Name is the role as GRANT calls it.
	Name string
	// Open is [Harness.Again] as this role.
	Open func(t testing.TB, pool int, opts ...store.Option) *store.SQL
	// Script runs the many statements of a text, as whoever owns the database.
	Script func(t testing.TB, text string)
}

package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	// lockWait is how long a drop waits for what still holds the tables, in
	// seconds; a drop as a whole is given up after dropTimeout: that of a database
	// waits for a checkpoint, which takes its time on a busy disk.
	lockWait    = "15"
	dropTimeout = time.Minute
)

// Schema is a test's own place in a database server.
type Schema struct {
	// Name is the schema's, or the database's where that is the same.
	Name string
	// DSN leads to the same server, with Name as the default for tables.
	DSN string
}

// FreshSchema makes an empty schema in the server that dsn names and drops it
// after the test: in PostgreSQL a schema, with search_path set in the DSN; in
// MySQL and MariaDB a database. admin is a pool on the same server; it must
// stay open until the test's cleanups begin to run in reverse order, so open
// it, and defer its closing with t.Cleanup, before calling this.
//
// A drop that cannot be done because a connection still holds the tables fails
// the test: it was left in a transaction.
//
// pgbouncer refuses search_path in a DSN: use [FreshDatabase] there.
func FreshSchema(t testing.TB, admin *sqlx.DB, dsn string) Schema {
	t.Helper()
	if ProtocolOf(dsn) == MySQLWire {
		return FreshDatabase(t, admin, dsn)
	}
	name := freshName(t)
	create(t, admin, "CREATE SCHEMA "+name)
	t.Cleanup(func() {
		drop(t, admin, name, "SET lock_timeout = '"+lockWait+"s'", "DROP SCHEMA IF EXISTS "+name+" CASCADE", "RESET lock_timeout")
	})
	return Schema{Name: name, DSN: DSNParam(t, dsn, "search_path", name)}
}

// FreshDatabase is [FreshSchema] with a database of its own also in
// PostgreSQL. Connections that are still open to it when it is dropped are
// ended there, and do not fail the test.
func FreshDatabase(t testing.TB, admin *sqlx.DB, dsn string) Schema {
	t.Helper()
	name := freshName(t)
	create(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if ProtocolOf(dsn) == PostgresWire {
			drop(t, admin, name, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return
		}
		drop(t, admin, name, "SET SESSION lock_wait_timeout = "+lockWait, "DROP DATABASE IF EXISTS "+name,
			"SET SESSION lock_wait_timeout = DEFAULT")
	})
	return Schema{Name: name, DSN: DSNDatabase(t, dsn, name)}
}

func create(t testing.TB, admin *sqlx.DB, statement string) {
	t.Helper()
	if _, err := admin.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("storetest: %s: %v", statement, err)
	}
}

// drop runs statements on one connection; all of them, so that the last can
// undo what the first has set.
func drop(t testing.TB, admin *sqlx.DB, name string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	conn, err := admin.Connx(ctx)
	if err != nil {
		t.Errorf("storetest: %s is left behind: %v", name, err)
		return
	}
	defer conn.Close()
	for _, statement := range statements {
		_, err := conn.ExecContext(ctx, statement)
		// Drops of many tests at once may deadlock in the catalogue; the victim
		// tries again.
		for try := 0; err != nil && try < 5 && ctx.Err() == nil; try++ {
			_, err = conn.ExecContext(ctx, statement)
		}
		if err != nil {
			t.Errorf("storetest: %s may be left behind (does a connection still hold it?): %s: %v", name, statement, err)
		}
	}
}

// freshName is an identifier that needs no quotes in any database and shows
// which test it belongs to.
func freshName(t testing.TB) string {
	t.Helper()
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(t.Name()))
	return "t_" + readable[:min(len(readable), 40)] + "_" + freshSuffix()
}

func freshSuffix() string {
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

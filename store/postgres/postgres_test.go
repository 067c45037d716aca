//go:build integration

package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"flag"
	"log/slog"
	"testing"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"go.uber.org/goleak"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// quiet keeps the processes that migrate from telling.
var quiet = store.WithLogger(slog.New(slog.DiscardHandler))

func TestMain(m *testing.M) {
	storetest.Child(func(dsn string) (*store.SQL, error) { return postgres.Open(dsn, quiet) })
	_ = flag.Set("test.parallel", "8") // most of the suite waits for the server
	goleak.VerifyTestMain(m)
}

func TestPgx(t *testing.T) {
	t.Parallel()
	storetest.Run(t, pgxSetup(t, "ONCE_TEST_POSTGRES").Make())
}

func TestPgxDirect(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES")
	s.Harness.Direct = true
	s.Harness.Variant = true
	storetest.Run(t, s.Make())
}

func TestPgx18(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES18")
	s.Harness.Variant = true
	storetest.Run(t, s.Make(), // what the handler does to the driver is seen on 15
		"portable", "outcomes", "racers", "keys", "waits", "commits", "outages", "doom", "swallow", "lost", "cancel")
}

func TestPq(t *testing.T) {
	t.Parallel()
	storetest.Run(t, pqSetup(t).Make())
}

func TestPqDirect(t *testing.T) {
	t.Parallel()
	s := pqSetup(t)
	s.Harness.Direct = true
	storetest.Run(t, s.Make())
}

func TestPgbouncer(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_PGBOUNCER")
	databases := &databases{
		admin:   adminPool(t, "pgx", storetest.Address(t, "ONCE_TEST_POSTGRES")),
		address: storetest.Address(t, "ONCE_TEST_PGBOUNCER"),
	}
	parent := t
	s.Fresh = func(t testing.TB) string {
		t.Helper()
		return storetest.DSNParam(t, databases.take(parent, t), "default_query_exec_mode", "exec")
	}
	s.Connector = func(t testing.TB, dsn string) driver.Connector {
		t.Helper()
		// pgbouncer 1.18 dies of a cancel request whose client hangs up early
		// (pgbouncer issue 801), as pgx does when a context ends.
		wire, dsn := storetest.WireTo(t, dsn)
		wire.On(storetest.OfKind(storetest.KindCancel), storetest.Fault{End: storetest.Cut, Times: -1})
		return pgxConnector(t, dsn)
	}
	s.Processes, s.ReadOnly, s.Role = false, nil, nil
	s.Harness.Variant = true
	storetest.Run(t, s.Make())
}

func TestOtelsql(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES")
	s.OpenDB = func(c driver.Connector) *sql.DB { return otelsql.OpenDB(c) }
	s.Harness.Trips = plainTrips
	s.Harness.Variant = true
	storetest.Run(t, s.Make(), ways...)
}

func TestOpenDBFromPool(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES")
	s.Connector = func(t testing.TB, dsn string) driver.Connector {
		t.Helper()
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.MaxConns = 30 // more than any pool of the suite
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return stdlib.GetPoolConnector(pool)
	}
	s.Harness.Variant = true
	storetest.Run(t, s.Make(), ways...)
}

// ways are the groups for a pool that differs from another one's only in how
// its connections are wrapped.
var ways = []string{
	"portable", "outcomes", "commits", "outputs", "outages",
	"doom", "swallow", "session", "end", "limits", "lost", "cancel", "arguments",
}

// plainTrips are those of a connection that is not known to be pgx's own.
var plainTrips = storetest.Trips{First: 3, Duplicate: 4}

func harness() storetest.Harness {
	return storetest.Harness{
		Dialect: "postgres", MinWait: 50 * time.Millisecond,
		Levels:       []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable},
		Trips:        storetest.Trips{First: 2, Duplicate: 2},
		ConnectionID: "SELECT pg_backend_pid()", Kill: "SELECT pg_terminate_backend(%d)",
		Describe: describe, Refusals: []string{"40001", "40P01"},
		Types: storetest.Types{Text: "TEXT", Bytes: "BYTEA", BigInt: "BIGINT", Timestamp: "TIMESTAMPTZ"},
		Fault: func(code string) error {
			return &pgconn.PgError{Severity: "ОШИБКА", Code: code, Message: "нечто на другом языке", Where: "где-то"}
		},
	}
}

func pgxSetup(t *testing.T, variable string) storetest.Setup {
	t.Helper()
	address := storetest.Address(t, variable)
	admin := adminPool(t, "pgx", address)
	return storetest.Setup{
		Harness: harness(),
		Fresh: func(t testing.TB) string {
			t.Helper()
			return storetest.FreshSchema(t, admin, address).DSN
		},
		Connector: pgxConnector, Driver: "pgx", New: postgres.New,
		Wire: true, Stubs: true, Processes: true, ReadOnly: readOnly, Role: role, Script: script,
	}
}

func pgxConnector(t testing.TB, dsn string) driver.Connector {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return stdlib.GetConnector(*config)
}

func pqSetup(t *testing.T) storetest.Setup {
	t.Helper()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES")
	s.Driver, s.Harness.Trips = "postgres", storetest.Trips{First: 4, Duplicate: 6}
	s.Harness.Variant = true
	s.Connector = func(t testing.TB, dsn string) driver.Connector {
		t.Helper()
		c, err := pq.NewConnector(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s.Harness.Fault = func(code string) error {
		return &pq.Error{Severity: "ОШИБКА", Code: pq.ErrorCode(code), Message: "нечто на другом языке", Where: "где-то"}
	}
	return s
}

func adminPool(t testing.TB, driverName, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open(driverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

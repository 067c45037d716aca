//go:build integration

package mysql_test

import (
	"database/sql"
	"database/sql/driver"
	"flag"
	"log/slog"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"go.uber.org/goleak"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// quiet keeps the processes that migrate from telling.
var quiet = store.WithLogger(slog.New(slog.DiscardHandler))

func TestMain(m *testing.M) {
	storetest.Child(func(dsn string) (*store.SQL, error) { return mysql.Open(dsn, quiet) })
	_ = flag.Set("test.parallel", "8")                  // most of the suite waits for the server
	_ = mysqldriver.SetLogger(&mysqldriver.NopLogger{}) // lost connections are meant
	goleak.VerifyTestMain(m)
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	storetest.Run(t, setup(t).Make())
}

func TestMariaDBDirect(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.Harness.Direct = true
	s.Harness.Variant = true
	storetest.Run(t, s.Make())
}

// What is sent to MySQL, on MariaDB.
func TestPlain(t *testing.T) {
	t.Parallel()
	// The server's own bounds stand for Claim.Wait.
	s := setup(t, "innodb_lock_wait_timeout", "2", "lock_wait_timeout", "2")
	s.Options = []store.Option{mysql.Plain()}
	s.Harness.MinWait = 2 * time.Second
	s.Harness.Trips = storetest.Trips{First: 4, Duplicate: 5}
	s.Harness.Variant = true
	storetest.Run(t, s.Make())
}

func TestInterpolateParams(t *testing.T) {
	t.Parallel()
	s := setup(t, "interpolateParams", "true")
	s.Harness.Variant = true
	storetest.Run(t, s.Make(), // only arguments travel in another way
		"portable", "outcomes", "keys", "commits", "outputs", "doom", "swallow", "session", "lost", "arguments")
}

// A driver that may send less than the server takes.
func TestDriverLimit(t *testing.T) {
	t.Parallel()
	s := setup(t, "maxAllowedPacket", "1048576")
	s.Harness.Variant = true
	storetest.Run(t, s.Make(), "outputs")
}

func TestSnapshotIsolation(t *testing.T) {
	t.Parallel()
	s := setup(t, "innodb_snapshot_isolation", "1")
	s.Harness.Variant = true
	storetest.Run(t, s.Make())
}

// setup is MariaDB with parameters in the DSN.
func setup(t *testing.T, params ...string) storetest.Setup {
	t.Helper()
	address := storetest.Address(t, "ONCE_TEST_MARIADB")
	admin := adminPool(t, address)
	return storetest.Setup{
		Harness: storetest.Harness{
			Dialect: "mysql", CommitsDDL: true, MinWait: time.Second,
			Levels:       []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable},
			Trips:        storetest.Trips{First: 2, Duplicate: 1},
			ConnectionID: "SELECT CONNECTION_ID()", Kill: "KILL %d",
			Describe: describe, Refusals: []string{"1062", "1213", "1020"},
			Types: storetest.Types{Text: "TEXT", Bytes: "BLOB", BigInt: "BIGINT", Timestamp: "DATETIME(6)"},
			Fault: fault,
		},
		Fresh: func(t testing.TB) string {
			t.Helper()
			dsn := storetest.FreshSchema(t, admin, address).DSN
			for i := 0; i < len(params); i += 2 {
				dsn = storetest.DSNParam(t, dsn, params[i], params[i+1])
			}
			return dsn
		},
		Connector: connector, Driver: "mysql", New: mysql.New,
		Wire: true, Stubs: true, Processes: true, ReadOnly: readOnly, Role: role, Script: script,
	}
}

func connector(t testing.TB, dsn string) driver.Connector {
	t.Helper()
	config, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqldriver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func adminPool(t testing.TB, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

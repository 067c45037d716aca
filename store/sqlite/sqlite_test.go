package sqlite_test

import (
	"context"
	"database/sql/driver"
	"flag"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	sqlitedriver "modernc.org/sqlite"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// quiet keeps the processes that migrate from telling.
var quiet = store.WithLogger(slog.New(slog.DiscardHandler))

func TestMain(m *testing.M) {
	storetest.Child(func(dsn string) (*store.SQL, error) { return sqlite.Open(dsn, quiet) })
	_ = flag.Set("test.parallel", "8") // most of the suite waits
	goleak.VerifyTestMain(m)
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(false))
}

func TestDirect(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(true))
}

// The part of the suite that a user's own store can run, on one that is ours.
func TestAsAnyStore(t *testing.T) {
	t.Parallel()
	storetest.RunStore(t, func(t testing.TB) store.Store {
		t.Helper()
		s := harness(false).Open(t, 4)
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func harness(direct bool) storetest.Harness {
	return storetest.Setup{
		Harness: storetest.Harness{
			Dialect: "sqlite", Direct: direct, Variant: direct, OneWriter: true, MinWait: 50 * time.Millisecond,
			Types: storetest.Types{Text: "TEXT", Bytes: "BLOB", BigInt: "INTEGER", Timestamp: "TEXT"},
			Describe: `SELECT type || ' ' || name || ': ' || COALESCE(sql, '') FROM sqlite_master
				WHERE name NOT LIKE 'effects%' ORDER BY 1`,
		},
		Fresh:     file,
		Connector: func(_ testing.TB, dsn string) driver.Connector { return connector(dsn) },
		Driver:    "sqlite", New: sqlite.New, Processes: true, Stubs: true,
		ReadOnly: func(_ testing.TB, dsn string) string { return "file:" + dsn + "&mode=ro" },
	}.Make()
}

func file(t testing.TB) string {
	t.Helper()
	// What the suite looks at does not depend on what reaches the disk.
	dsn, err := sqlite.DSN(filepath.Join(t.TempDir(), "once.db?_pragma=synchronous(OFF)"))
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// connector opens what the driver, which has no connector, opens by name.
type connector string

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Driver().Open(string(c)) }
func (c connector) Driver() driver.Driver                        { return &sqlitedriver.Driver{} }

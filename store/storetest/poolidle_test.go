package storetest_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func openSQLite(t *testing.T, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "pool.db")+"?_pragma=busy_timeout(100)&_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(max(conns, 1))
	return db
}

func TestPoolIdleTakesAGoodPool(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{0, 1, 2, 5} {
		db := openSQLite(t, conns)
		storetest.PoolIdle(t, db)
		storetest.PoolIdle(t, db) // it leaves nothing
		if conns > 0 && db.Stats().OpenConnections != conns {
			t.Errorf("%d of %d connections were tried", db.Stats().OpenConnections, conns)
		}
		var tables int
		if err := db.QueryRow("SELECT COUNT(*) FROM sqlite_master").Scan(&tables); err != nil || tables != 0 {
			t.Errorf("%v, %d tables are left", err, tables)
		}
	}
}

func TestPoolIdleFindsAConnectionInUse(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, 2)
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	said := failures(t, func(tb testing.TB) { storetest.PoolIdleWithin(tb, db, 20*time.Millisecond) })
	if !strings.Contains(said, "1 of its connections are in use") {
		t.Errorf("%q", said)
	}
}

func TestPoolIdleFindsATransactionLeftOpen(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{1, 3} {
		db := openSQLite(t, conns)
		_, err := db.Exec("BEGIN IMMEDIATE")
		must(t, err)
		if said := failures(t, func(tb testing.TB) { storetest.PoolIdle(tb, db) }); !strings.Contains(said, "not as it was") {
			t.Errorf("%d connections: %q", conns, said)
		}
	}
}

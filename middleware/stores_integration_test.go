//go:build integration

package once_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

func serverStores() []storeKind {
	pgx := func(dsn string) (*store.SQL, error) { return postgres.Open(dsn) }
	pq := func(dsn string) (*store.SQL, error) {
		db, err := sqlx.Open("postgres", dsn)
		return postgres.New(db), err
	}
	maria := func(dsn string) (*store.SQL, error) { return mysql.Open(dsn) }
	const late = `CREATE TABLE late (id INT PRIMARY KEY, parent INT REFERENCES late (id) DEFERRABLE INITIALLY DEFERRED)`
	return []storeKind{
		server("postgres", "ONCE_TEST_POSTGRES", "pgx", pgx, late),
		server("postgres18", "ONCE_TEST_POSTGRES18", "pgx", pgx, late),
		server("libpq", "ONCE_TEST_POSTGRES", "postgres", pq, late),
		server("mariadb", "ONCE_TEST_MARIADB", "mysql", maria, ""),
	}
}

func server(name, variable, driver string, open func(dsn string) (*store.SQL, error), deferred string) storeKind {
	fresh := func(t *testing.T) string {
		dsn := storetest.Address(t, variable)
		admin := sqlx.MustOpen(driver, dsn)
		t.Cleanup(func() { _ = admin.Close() })
		return storetest.FreshSchema(t, admin, dsn).DSN
	}
	opened := func(t *testing.T, dsn string) *store.SQL {
		s, err := open(dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.DB().Close() })
		return s
	}
	return storeKind{
		name:  name,
		fresh: fresh,
		dial:  open,
		open:  func(t *testing.T) *store.SQL { return opened(t, fresh(t)) },
		wire: func(t *testing.T) (*store.SQL, *storetest.Wire) {
			w, dsn := storetest.WireTo(t, fresh(t))
			return opened(t, dsn), w
		},
		deferred: deferred,
		minWait:  time.Second,
	}
}

//go:build integration

package oncecqrs_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

func serverStores() []storeKind {
	return []storeKind{
		server("postgres", "ONCE_TEST_POSTGRES", "pgx", func(dsn string) (*store.SQL, error) { return postgres.Open(dsn, quiet()) }),
		server("mariadb", "ONCE_TEST_MARIADB", "mysql", func(dsn string) (*store.SQL, error) { return mysql.Open(dsn, quiet()) }),
	}
}

func server(name, variable, driver string, open func(dsn string) (*store.SQL, error)) storeKind {
	return storeKind{name: name, open: func(t *testing.T) *store.SQL {
		dsn := storetest.Address(t, variable)
		admin := sqlx.MustOpen(driver, dsn)
		t.Cleanup(func() { _ = admin.Close() })
		s, err := open(storetest.FreshSchema(t, admin, dsn).DSN)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.DB().Close() })
		return s
	}}
}

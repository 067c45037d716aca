//go:build integration

package forwarder

import (
	"log/slog"
	"testing"

	"github.com/jmoiron/sqlx"
	"go.uber.org/goleak"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database is a server that the tests run on.
type database struct {
	name, variable, driver string
	dialect                Dialect
	new                    func(db *sqlx.DB) *store.SQL
}

func databases() []database {
	quiet := store.WithLogger(slog.New(slog.DiscardHandler))
	return []database{
		{"postgres", "ONCE_TEST_POSTGRES", "pgx", PostgreSQL(), func(db *sqlx.DB) *store.SQL { return postgres.New(db, quiet) }},
		{"mariadb", "ONCE_TEST_MARIADB", "mysql", MySQL(), func(db *sqlx.DB) *store.SQL { return mysql.New(db, quiet) }},
	}
}

// fresh makes a schema of the test's own with all tables, reached through
// a wire that counts.
func (d database) fresh(t *testing.T) (*store.SQL, *storetest.Wire) {
	t.Helper()
	dsn := storetest.Address(t, d.variable)
	admin := sqlx.MustOpen(d.driver, dsn)
	t.Cleanup(func() { _ = admin.Close() })
	wire, dsn := storetest.WireTo(t, storetest.FreshSchema(t, admin, dsn).DSN)
	db := sqlx.MustOpen(d.driver, dsn)
	t.Cleanup(func() { _ = db.Close() })
	s := d.new(db)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(db, d.dialect); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`CREATE TABLE orders (id VARCHAR(64) PRIMARY KEY)`)
	return s, wire
}

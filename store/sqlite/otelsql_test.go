package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/XSAM/otelsql"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// An instrumented pool, whose driver connection is not modernc's own.
func TestOtelsql(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Setup{
		Harness:   harness(false),
		Fresh:     file,
		Connector: func(_ testing.TB, dsn string) driver.Connector { return connector(dsn) },
		OpenDB:    func(c driver.Connector) *sql.DB { return otelsql.OpenDB(c) },
		Driver:    "sqlite", New: sqlite.New, Stubs: true,
	}.Make(), "doom", "session", "swallow", "arguments", "end", "cancel")
}

// A database in memory is its one connection: whatever an attempt does to it,
// it must not be discarded, for that would lose all.
func TestInMemory(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.DB().MustExec("CREATE TABLE effects (n INTEGER PRIMARY KEY)")
	claims := 0
	for name, fn := range map[string]func(ctx context.Context, tx *sqlx.Tx) error{
		"commit": func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects DEFAULT VALUES")
			return err
		},
		"rollback": func(context.Context, *sqlx.Tx) error { return sql.ErrNoRows },
		"swallow": func(ctx context.Context, tx *sqlx.Tx) error {
			_, _ = tx.ExecContext(ctx, "INSERT INTO nowhere VALUES (1)")
			return nil
		},
		"or rollback": func(ctx context.Context, tx *sqlx.Tx) error {
			_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO effects VALUES (1), (1)")
			return nil
		},
		"interrupt": func(ctx context.Context, tx *sqlx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			go cancel()
			_, _ = tx.ExecContext(ctx, "INSERT INTO effects WITH RECURSIVE c (x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c LIMIT 100000000")
			return nil
		},
		"rows left open": func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.QueryContext(ctx, "SELECT * FROM effects") //nolint:sqlclosecheck,rowserrcheck // that is the case
			return err
		},
		"tx.Rollback": func(_ context.Context, tx *sqlx.Tx) error { return tx.Rollback() },
	} {
		r, err := s.Do(t.Context(), store.Claim{Consumer: "a/b", Key: name}, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			return nil, fn(ctx, tx)
		})
		if err == nil {
			claims++
		}
		t.Logf("%s: %+v, %v", name, r, err)
	}
	var n int
	if err := s.DB().Get(&n, "SELECT COUNT(*) FROM once_claims"); err != nil || n != claims || claims < 2 {
		t.Errorf("%d claims, want %d: %v", n, claims, err)
	}
}

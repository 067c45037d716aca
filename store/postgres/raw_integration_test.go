//go:build integration

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// bench is a migrated store over a pool of one, with a table beside it.
type bench struct {
	*testing.T
	s    *store.SQL
	view *sqlx.DB
}

// overEach runs a test on every way to a *pgx.Conn.
func overEach(t *testing.T, test func(b *bench)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T, dsn string) *sql.DB{
		"pool": func(t *testing.T, dsn string) *sql.DB { t.Helper(); return sql.OpenDB(pgxConnector(t, dsn)) },
		"pgxpool": func(t *testing.T, dsn string) *sql.DB {
			t.Helper()
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return stdlib.OpenDBFromPool(pool)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newBench(t, "pgx", open))
		})
	}
}

func newBench(t *testing.T, driverName string, open func(t *testing.T, dsn string) *sql.DB, opts ...store.Option) *bench {
	t.Helper()
	address := storetest.Address(t, "ONCE_TEST_POSTGRES")
	dsn := storetest.FreshSchema(t, adminPool(t, "pgx", address), address).DSN
	view := adminPool(t, "pgx", dsn)
	db := sqlx.NewDb(open(t, dsn), driverName)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{T: t, s: postgres.New(db, opts...), view: view}
	t.Cleanup(func() {
		storetest.PoolIdle(t, db.DB)
		if err := b.s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	view.MustExec("CREATE TABLE effects (n INT NOT NULL CHECK (n >= 0))")
	return b
}

// do runs an attempt whose handler also writes the row 0 before and after fn.
func (b *bench) do(key string, fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	b.Helper()
	_, err := b.s.Do(b.Context(), store.Claim{Consumer: "a/b", Key: key}, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (0)"); err != nil {
			return nil, err
		}
		if err := fn(ctx, tx); err != nil {
			return nil, err
		}
		_, _ = tx.ExecContext(ctx, "INSERT INTO effects VALUES (0)")
		return nil, nil
	})
	return err
}

// holds checks what is there, and that the next attempt is processed.
func (b *bench) holds(claims, effects int) {
	b.Helper()
	var c, e int
	if err := errors.Join(b.view.Get(&c, "SELECT COUNT(*) FROM once_claims"), b.view.Get(&e, "SELECT COUNT(*) FROM effects")); err != nil {
		b.Fatal(err)
	}
	if c != claims || e != effects {
		b.Errorf("there are %d claims and %d effects, want %d and %d", c, e, claims, effects)
	}
}

func copyRows(ctx context.Context, rows ...int) error {
	return postgres.Raw(ctx, func(c *pgx.Conn) error {
		n, err := c.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"n"}, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			return []any{rows[i]}, nil
		}))
		if err == nil && n != int64(len(rows)) {
			err = fmt.Errorf("copied %d rows", n)
		}
		return err
	})
}

func sendBatch(ctx context.Context, queries ...string) error {
	return postgres.Raw(ctx, func(c *pgx.Conn) error {
		batch := &pgx.Batch{}
		for _, q := range queries {
			batch.Queue(q)
		}
		return c.SendBatch(ctx, batch).Close()
	})
}

func TestRawCommitsWithTheClaim(t *testing.T) {
	t.Parallel()
	overEach(t, func(b *bench) {
		if err := b.do("copy", func(ctx context.Context, _ *sqlx.Tx) error { return copyRows(ctx, 1, 2, 3) }); err != nil {
			b.Fatal(err)
		}
		b.holds(1, 5)
		if err := b.do("batch", func(ctx context.Context, _ *sqlx.Tx) error {
			return sendBatch(ctx, "INSERT INTO effects VALUES (1)", "UPDATE effects SET n = 7", "INSERT INTO effects VALUES (2)")
		}); err != nil {
			b.Fatal(err)
		}
		b.holds(2, 9)
		boom := errors.New("boom")
		if err := b.do("fails", func(ctx context.Context, _ *sqlx.Tx) error {
			return errors.Join(copyRows(ctx, 1, 2), sendBatch(ctx, "INSERT INTO effects VALUES (1)"), boom)
		}); !errors.Is(err, boom) {
			b.Error(err)
		}
		b.holds(2, 9)
	})
}

func TestRawDooms(t *testing.T) {
	t.Parallel()
	overEach(t, func(b *bench) {
		raw := func(use func(ctx context.Context, c *pgx.Conn) error) func(ctx context.Context, tx *sqlx.Tx) {
			return func(ctx context.Context, _ *sqlx.Tx) {
				_ = postgres.Raw(ctx, func(c *pgx.Conn) error { return use(ctx, c) })
			}
		}
		run := func(query string) func(ctx context.Context, c *pgx.Conn) error {
			return func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, query)
				return err
			}
		}
		swallow := func(use func(ctx context.Context, c *pgx.Conn) error) func(ctx context.Context, c *pgx.Conn) error {
			return func(ctx context.Context, c *pgx.Conn) error { _ = use(ctx, c); return nil }
		}
		for name, test := range map[string]struct {
			use   func(ctx context.Context, tx *sqlx.Tx)
			class store.Class
			is    error
		}{
			"a COPY that fails": {func(ctx context.Context, _ *sqlx.Tx) { _ = copyRows(ctx, 1, -1) }, store.ClassHandler, store.ErrDoomed},
			"a batch that fails": {func(ctx context.Context, _ *sqlx.Tx) {
				_ = sendBatch(ctx, "INSERT INTO effects VALUES (1)", "INSERT INTO nowhere VALUES (1)")
			}, store.ClassHandler, store.ErrDoomed},
			"a statement that fails": {raw(swallow(run("INSERT INTO nowhere VALUES (1)"))), store.ClassHandler, store.ErrDoomed},
			"ROLLBACK":               {raw(run("ROLLBACK")), store.ClassHandler, store.ErrForbidden},
			"rows left open": {raw(func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Query(ctx, "SELECT generate_series(1, 10)")
				return err
			}), store.ClassHandler, store.ErrBusy},
			"a batch left open": {raw(func(ctx context.Context, c *pgx.Conn) error {
				batch := &pgx.Batch{}
				batch.Queue("INSERT INTO effects VALUES (1)")
				c.SendBatch(ctx, batch)
				return nil
			}), store.ClassHandler, store.ErrBusy},
			"a connection that was closed": {raw(func(ctx context.Context, c *pgx.Conn) error { return c.Close(ctx) }), store.ClassTransient, store.ErrDoomed},
			"a context that ended": {func(ctx context.Context, _ *sqlx.Tx) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				_ = copyRows(ctx, 1)
			}, store.ClassHandler, store.ErrDoomed},
			"nested": {raw(func(ctx context.Context, _ *pgx.Conn) error {
				_ = copyRows(ctx, 1)
				return nil
			}), store.ClassHandler, store.ErrBusy},
			"a statement inside": {func(ctx context.Context, tx *sqlx.Tx) {
				_ = postgres.Raw(ctx, func(*pgx.Conn) error { _, _ = tx.Exec("INSERT INTO effects VALUES (1)"); return nil })
			}, store.ClassHandler, store.ErrBusy},
			"tx.Commit inside": {func(ctx context.Context, tx *sqlx.Tx) {
				_ = postgres.Raw(ctx, func(*pgx.Conn) error { _ = tx.Commit(); return nil })
			}, store.ClassHandler, store.ErrForbidden},
			"a panic that is recovered": {func(ctx context.Context, _ *sqlx.Tx) {
				defer func() { _ = recover() }()
				_ = postgres.Raw(ctx, func(*pgx.Conn) error { panic("boom") })
			}, store.ClassHandler, store.ErrDoomed},
		} {
			err := b.do("key", func(ctx context.Context, tx *sqlx.Tx) error { test.use(ctx, tx); return nil })
			if !errors.Is(err, test.is) || store.ClassOf(err) != test.class {
				b.Errorf("%s: %v's: %v", name, store.ClassOf(err), err)
			}
			b.holds(0, 0)
		}
		if err := b.do("key", func(context.Context, *sqlx.Tx) error { return nil }); err != nil {
			b.Error(err)
		}
		b.holds(1, 2)
	})
}

func TestRawThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	overEach(t, func(b *bench) {
		for _, leave := range []func(){func() { panic("boom") }, runtime.Goexit} {
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_ = b.do("key", func(ctx context.Context, _ *sqlx.Tx) error {
					return postgres.Raw(ctx, func(c *pgx.Conn) error {
						_, err := c.Query(ctx, "SELECT generate_series(1, 10)") // left open
						leave()
						return err
					})
				})
			}()
			<-done
			b.holds(0, 0)
		}
		if err := b.do("key", func(ctx context.Context, _ *sqlx.Tx) error { return copyRows(ctx, 1) }); err != nil {
			b.Error(err)
		}
		b.holds(1, 3)
	})
}

// What nobody can prevent: a COMMIT on the raw connection commits what is there.
// The attempt fails loudly, and sends nothing more.
func TestRawCommit(t *testing.T) {
	t.Parallel()
	overEach(t, func(b *bench) {
		err := b.do("key", func(ctx context.Context, _ *sqlx.Tx) error { _ = sendBatch(ctx, "COMMIT"); return nil })
		if !errors.Is(err, store.ErrForbidden) || store.ClassOf(err) != store.ClassHandler {
			b.Errorf("%v's: %v", store.ClassOf(err), err)
		}
		b.holds(1, 1)
	})
}

// A savepoint undoes what failed on the raw connection too.
func TestRawBehindASavepoint(t *testing.T) {
	t.Parallel()
	overEach(t, func(b *bench) {
		err := b.do("key", func(ctx context.Context, tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(ctx, "SAVEPOINT a"); err != nil {
				return err
			}
			if copyRows(ctx, 1, -1) == nil {
				return errors.New("the COPY did not fail")
			}
			_, err := tx.ExecContext(ctx, "ROLLBACK TO a")
			return err
		})
		if err != nil {
			b.Error(err)
		}
		b.holds(1, 2)
	})
}

func TestNoRaw(t *testing.T) {
	t.Parallel()
	if err := copyRows(t.Context(), 1); !errors.Is(err, store.ErrNoRaw) {
		t.Errorf("outside of an attempt: %v", err)
	}
	for name, b := range map[string]*bench{
		"lib/pq":       newBench(t, "postgres", openPq),
		"instrumented": newBench(t, "pgx", func(t *testing.T, dsn string) *sql.DB { t.Helper(); return otelsql.OpenDB(pgxConnector(t, dsn)) }),
		"direct":       newBench(t, "pgx", func(t *testing.T, dsn string) *sql.DB { t.Helper(); return sql.OpenDB(pgxConnector(t, dsn)) }, store.Direct()),
	} {
		err := b.do("key", func(ctx context.Context, _ *sqlx.Tx) error { return copyRows(ctx, 1) })
		if !errors.Is(err, store.ErrNoRaw) {
			t.Errorf("%s: %v", name, err)
		}
		b.holds(0, 0)
	}
}

func openPq(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	c, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return sql.OpenDB(c)
}

// lib/pq copies through a prepared statement that takes a row with each Exec.
func TestCopyOfLibpq(t *testing.T) {
	t.Parallel()
	rows := func(ctx context.Context, tx *sqlx.Tx, ns ...any) (*sql.Stmt, error) {
		stmt, err := tx.PrepareContext(ctx, pq.CopyIn("effects", "n"))
		for _, n := range ns {
			if err == nil {
				_, err = stmt.ExecContext(ctx, n)
			}
		}
		return stmt, err
	}
	for name, test := range map[string]struct {
		use     func(ctx context.Context, tx *sqlx.Tx) error
		effects int
		is      error
	}{
		"to its end": {func(ctx context.Context, tx *sqlx.Tx) error {
			stmt, err := rows(ctx, tx, 1, 2, 3)
			if err == nil {
				_, err = stmt.ExecContext(ctx)
			}
			return errors.Join(err, stmt.Close())
		}, 5, nil},
		"closed": {func(ctx context.Context, tx *sqlx.Tx) error {
			stmt, err := rows(ctx, tx, 1, 2, 3)
			return errors.Join(err, stmt.Close())
		}, 5, nil},
		"left open":                        {func(ctx context.Context, tx *sqlx.Tx) error { _, err := rows(ctx, tx, 1, 2, 3); return err }, 0, store.ErrBusy},
		"left open, with a row that fails": {func(ctx context.Context, tx *sqlx.Tx) error { _, err := rows(ctx, tx, 1, -2, 3); return err }, 0, store.ErrDoomed},
		"a row that fails": {func(ctx context.Context, tx *sqlx.Tx) error {
			stmt, err := rows(ctx, tx, 1, -2, 3)
			if err == nil {
				_, _ = stmt.ExecContext(ctx)
			}
			return err
		}, 0, store.ErrDoomed},
		"a row of a wrong type": {func(ctx context.Context, tx *sqlx.Tx) error {
			stmt, _ := rows(ctx, tx, "many")
			_, _ = stmt.ExecContext(ctx)
			return nil
		}, 0, store.ErrDoomed},
		"a statement in between": {func(ctx context.Context, tx *sqlx.Tx) error {
			stmt, err := rows(ctx, tx, 1)
			if _, busy := tx.ExecContext(ctx, "INSERT INTO effects VALUES (9)"); !errors.Is(busy, store.ErrBusy) {
				t.Errorf("in between: %v", busy)
			}
			return errors.Join(err, stmt.Close())
		}, 0, store.ErrBusy},
		"an error of the handler's": {func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := rows(ctx, tx, 1, 2, 3)
			return errors.Join(err, sql.ErrNoRows)
		}, 0, sql.ErrNoRows},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "postgres", openPq)
			claims := min(1, test.effects)
			if err := b.do("key", test.use); !errors.Is(err, test.is) || (err == nil) != (test.is == nil) {
				t.Error(err)
			}
			b.holds(claims, test.effects)
			if err := b.do("next", func(context.Context, *sqlx.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
			b.holds(claims+1, test.effects+2)
		})
	}
}

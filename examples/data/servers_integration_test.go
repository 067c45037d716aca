//go:build integration

package data

import (
	"context"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	sq "github.com/Masterminds/squirrel"
	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/watermill-once/watermill-once/examples/data/sqlc/mybank"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/myprepared"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/pgbank"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/pgprepared"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/pgxbank"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

func openPostgres(t *testing.T, opts ...store.Option) *bank {
	t.Helper()
	claims, err := postgres.Open(fresh(t, "pgx", "ONCE_TEST_POSTGRES"), append(opts, quiet)...)
	return newBank(t, claims, err)
}

func openMariaDB(t *testing.T, opts ...store.Option) *bank {
	t.Helper()
	claims, err := mysql.Open(fresh(t, "mysql", "ONCE_TEST_MARIADB"), append(opts, quiet)...)
	return newBank(t, claims, err)
}

// fresh returns the DSN of an empty schema.
func fresh(t *testing.T, driver, variable string) string {
	t.Helper()
	address := storetest.Address(t, variable)
	admin, err := sqlx.Open(driver, address)
	if err != nil {
		t.Fatal("the address of the server is no DSN")
	}
	t.Cleanup(func() { _ = admin.Close() })
	return storetest.FreshSchema(t, admin, address).DSN
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	d := onPostgres()
	over(t, openPostgres, func(b *bank) []way {
		handle, closeStatements, err := SqlcPrepared(b.Context(), b.claims)
		b.closes(closer(closeStatements), err)
		prepared := d.sqlcWay("sqlc, SqlcPrepared", d.sqlc)
		prepared.handle = handle
		return append(d.ways(b), pgxWay(), sqlcPgxWay(), prepared)
	})
	provesPreparedElsewhere(t, openPostgres, d)
}

type closer func() error

func (c closer) Close() error { return c() }

func onPostgres() database {
	return database{
		format: sq.Dollar,
		ent:    dialect.Postgres,
		bun:    pgdialect.New(),
		gorm: func(conn gorm.ConnPool) gorm.Dialector {
			return gormpostgres.New(gormpostgres.Config{Conn: conn})
		},
		sqlc: func(tx *sqlx.Tx) Queries { return pgbank.New(tx) },
		prepared: func(b *bank, on *sqlx.DB) func(*sqlx.Tx) Queries {
			q, err := pgprepared.Prepare(b.Context(), on)
			b.closes(q, err)
			return func(tx *sqlx.Tx) Queries { return q.WithTx(tx.Tx) }
		},
	}
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	d := onMariaDB()
	over(t, openMariaDB, d.ways)
	provesPreparedElsewhere(t, openMariaDB, d)
}

func onMariaDB() database {
	return database{
		format: sq.Question,
		ent:    dialect.MySQL,
		bun:    mysqldialect.New(),
		gorm: func(conn gorm.ConnPool) gorm.Dialector {
			return gormmysql.New(gormmysql.Config{Conn: conn})
		},
		sqlc: func(tx *sqlx.Tx) Queries { return mybank.New(tx) },
		prepared: func(b *bank, on *sqlx.DB) func(*sqlx.Tx) Queries {
			q, err := myprepared.Prepare(b.Context(), on)
			b.closes(q, err)
			return func(tx *sqlx.Tx) Queries { return q.WithTx(tx.Tx) }
		},
	}
}

func pgxWay() way {
	send := func(ctx context.Context, queue func(*pgx.Batch)) error {
		return postgres.Raw(ctx, func(c *pgx.Conn) error {
			batch := &pgx.Batch{}
			queue(batch)
			return c.SendBatch(ctx, batch).Close()
		})
	}
	again := func(b *pgx.Batch) { b.Queue(`INSERT INTO vouchers (id, message) VALUES ('used', 'again')`) }
	return way{
		name: "pgx", handle: Pgx,
		add: func(ctx context.Context, _ *sqlx.Tx) error {
			return send(ctx, func(b *pgx.Batch) { queueAdd(b, 1, 100) })
		},
		use: func(ctx context.Context, _ *sqlx.Tx) error { return send(ctx, again) },
		own: []own{
			{"a batch whose failure is swallowed", func(ctx context.Context, _ *sqlx.Tx) error {
				_ = postgres.Raw(ctx, func(c *pgx.Conn) error { // it sees what happened, and says so
					batch := &pgx.Batch{}
					queueAdd(batch, 1, 100)
					again(batch)
					_ = c.SendBatch(ctx, batch).Close()
					return nil
				})
				return nil
			}, store.ErrDoomed, 0},
			{"a COPY that fails", func(ctx context.Context, _ *sqlx.Tx) error {
				_ = postgres.Raw(ctx, func(c *pgx.Conn) error {
					_, err := c.CopyFrom(ctx, pgx.Identifier{"vouchers"}, []string{"id", "message"}, pgx.CopyFromRows([][]any{{"used", "again"}}))
					return err
				})
				return nil
			}, store.ErrDoomed, 0},
			{"Begin and Rollback", func(ctx context.Context, _ *sqlx.Tx) error {
				_ = postgres.Raw(ctx, func(c *pgx.Conn) error {
					tx, err := c.Begin(ctx)
					return errors.Join(err, tx.Rollback(ctx))
				})
				return nil
			}, store.ErrForbidden, 0},
		},
	}
}

func sqlcPgxWay() way {
	return way{
		name: "sqlc, pgx", handle: SqlcPgx,
		add: func(ctx context.Context, _ *sqlx.Tx) error {
			return onPgx(ctx, func(q *pgxbank.Queries) error { return sqlcPgxAdd(ctx, q, 1, 100) })
		},
		use: func(ctx context.Context, _ *sqlx.Tx) error {
			return onPgx(ctx, func(q *pgxbank.Queries) error {
				return sqlcPgxUse(ctx, q, pgxbank.UseVoucherParams{ID: "used", Message: "again"})
			})
		},
	}
}

// What the documentation warns of, and nobody can prevent.

// A Begin on the raw connection begins nothing, and its Commit is the claim's.
func TestPgxCommitsTheClaim(t *testing.T) {
	t.Parallel()
	b := openPostgres(t)
	b.reset()
	err := b.attempt(func(ctx context.Context, _ *sqlx.Tx) error {
		_ = postgres.Raw(ctx, func(c *pgx.Conn) error {
			tx, err := c.Begin(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `UPDATE accounts SET balance = balance + 100 WHERE id = 1`)
			return errors.Join(err, tx.Commit(ctx))
		})
		return nil
	})
	if !errors.Is(err, store.ErrForbidden) {
		t.Errorf("%v, want ErrForbidden", err)
	}
	b.want(books{One: 1100, Vouchers: 1, Claims: 1})
}

// A query of bun without its connection, and its RunInTx, go to the pool.
func TestBunOnThePoolIsOutside(t *testing.T) {
	t.Parallel()
	b := openPostgres(t)
	db := bun.NewDB(b.claims.DB().DB, pgdialect.New())
	for name, outside := range map[string]func(ctx context.Context) error{
		"no Conn": func(ctx context.Context) error { return bunAdd(ctx, BunOn{db, nil}, 1, 100) },
		"RunInTx": func(ctx context.Context) error {
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return bunAdd(ctx, BunOn{db, tx}, 1, 100) })
		},
	} {
		b.reset()
		err := b.attempt(func(ctx context.Context, _ *sqlx.Tx) error { return errors.Join(outside(ctx), errChanged) })
		if !errors.Is(err, errChanged) {
			t.Errorf("%s: %v", name, err)
		}
		b.want(books{One: 1100, Vouchers: 1})
	}
}

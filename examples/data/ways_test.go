package data

import (
	"context"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	sq "github.com/Masterminds/squirrel"
	"github.com/jmoiron/sqlx"
	"github.com/libtnb/sqlite"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/watermill-once/watermill-once/examples/data/ent"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/litebank"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/liteprepared"
	"github.com/watermill-once/watermill-once/store"
)

// database is what the libraries want to know of one.
type database struct {
	format   sq.PlaceholderFormat
	ent      string
	bun      schema.Dialect
	gorm     func(gorm.ConnPool) gorm.Dialector
	sqlc     func(*sqlx.Tx) Queries
	prepared func(b *bank, on *sqlx.DB) func(*sqlx.Tx) Queries
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	d := onSQLite()
	over(t, openSQLite, d.ways)
	provesPreparedElsewhere(t, openSQLite, d)
}

func onSQLite() database {
	return database{
		format: sq.Question,
		ent:    dialect.SQLite,
		bun:    sqlitedialect.New(),
		gorm:   func(conn gorm.ConnPool) gorm.Dialector { return sqlite.New(sqlite.Config{Conn: conn}) },
		sqlc:   func(tx *sqlx.Tx) Queries { return litebank.New(tx) },
		prepared: func(b *bank, on *sqlx.DB) func(*sqlx.Tx) Queries {
			q, err := liteprepared.Prepare(b.Context(), on)
			b.closes(q, err)
			return func(tx *sqlx.Tx) Queries { return q.WithTx(tx.Tx) }
		},
	}
}

// closes frees prepared statements after the test.
func (b *bank) closes(q interface{ Close() error }, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	t := b.T
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (d database) ways(b *bank) []way {
	return []way{
		{name: "sqlx", handle: Sqlx, add: addPlain, use: usePlain},
		d.sqlcWay("sqlc", d.sqlc),
		d.sqlcWay("sqlc, prepared", d.prepared(b, b.claims.Preparer())),
		d.squirrelWay(),
		d.gormWay(b),
		d.entWay(),
		d.bunWay(b),
	}
}

func addPlain(ctx context.Context, tx *sqlx.Tx) error { return sqlxAdd(ctx, tx, 1, 100) }

func usePlain(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO vouchers (id, message) VALUES ('used', 'again')`)
	return err
}

func (d database) sqlcWay(name string, on func(*sqlx.Tx) Queries) way {
	return way{
		name: name, handle: Sqlc(on),
		add: func(ctx context.Context, tx *sqlx.Tx) error { return sqlcAdd(ctx, on(tx), 1, 100) },
		use: func(ctx context.Context, tx *sqlx.Tx) error { return on(tx).UseVoucher(ctx, "used", "again") },
	}
}

func (d database) squirrelWay() way {
	on := sq.StatementBuilder.PlaceholderFormat(d.format)
	return way{
		name: "squirrel", handle: Squirrel(d.format),
		add: func(ctx context.Context, tx *sqlx.Tx) error { return squirrelAdd(ctx, on.RunWith(tx), 1, 100) },
		use: func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := on.RunWith(tx).Insert("vouchers").Values("used", "again").ExecContext(ctx)
			return err
		},
		own: []own{{"a cache of statements", func(ctx context.Context, tx *sqlx.Tx) error {
			return squirrelAdd(ctx, on.RunWith(sq.NewStmtCache(tx)), 1, 100)
		}, nil, 100}, {"an error of the builder's that is dropped dooms nothing", func(ctx context.Context, tx *sqlx.Tx) error {
			if _, err := on.RunWith(tx).Insert("vouchers").ExecContext(ctx); err == nil {
				return errors.New("it was sent without values")
			}
			return squirrelAdd(ctx, on.RunWith(tx), 1, 100)
		}, nil, 100}},
	}
}

func (d database) gormWay(b *bank) way {
	open := func(conn gorm.ConnPool, prepare bool) (*gorm.DB, error) {
		return gorm.Open(d.gorm(conn), &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	}
	db, err := open(b.claims.DB().DB, true) // which GORMOn does not keep
	if err != nil {
		b.Fatal(err)
	}
	session := func(use func(db *gorm.DB) error) func(context.Context, *sqlx.Tx) error {
		return func(ctx context.Context, tx *sqlx.Tx) error { return use(GORMOn(ctx, db, tx.Tx)) }
	}
	add := func(db *gorm.DB) error { return gormAdd(db, 1, 100) }
	// nested adds in the outer, and in a nested transaction that is undone for
	// the handler's own reason: no statement failed.
	nested := func(db *gorm.DB) error {
		err := db.Transaction(func(db *gorm.DB) error { return errors.Join(add(db), errChanged) })
		if !errors.Is(err, errChanged) {
			b.Errorf("%v, want the handler's own error", err)
		}
		return add(db)
	}
	return way{
		name: "GORM", handle: GORM(db),
		add: session(add),
		use: session(func(db *gorm.DB) error {
			return db.Create(&gormVoucher{ID: "used", Message: "again"}).Error
		}),
		own: []own{
			{"Commit", session(func(db *gorm.DB) error {
				err := add(db)
				db.Commit()
				return err
			}), store.ErrForbidden, 0},
			{"Rollback", session(func(db *gorm.DB) error {
				err := add(db)
				db.Rollback()
				return err
			}), store.ErrForbidden, 0},
			{"Begin", session(func(db *gorm.DB) error {
				return errors.Join(add(db), db.Begin().Error)
			}), gorm.ErrInvalidTransaction, 0},
			{"a nested transaction", session(nested), nil, 100},
			{"prepared statements", session(func(db *gorm.DB) error {
				return nested(db.Session(&gorm.Session{PrepareStmt: true}))
			}), nil, 100},
			{"opened on the transaction", func(_ context.Context, tx *sqlx.Tx) error {
				db, err := open(tx.Tx, false) // and with default transactions
				return errors.Join(err, nested(db))
			}, nil, 100},
			{"opened on the transaction, prepared statements", func(_ context.Context, tx *sqlx.Tx) error {
				_, err := open(tx.Tx, true)
				return err
			}, gorm.ErrInvalidDB, 0},
		},
	}
}

func (d database) entWay() way {
	client := func(use func(ctx context.Context, c *ent.Client) error) func(context.Context, *sqlx.Tx) error {
		return func(ctx context.Context, tx *sqlx.Tx) error { return use(ctx, EntOn(d.ent, tx.Tx)) }
	}
	in := func(end func(tx *ent.Tx) error) func(context.Context, *ent.Client) error {
		return func(ctx context.Context, c *ent.Client) error {
			tx, err := c.Tx(ctx)
			if err != nil {
				return err
			}
			return errors.Join(entAdd(ctx, tx.Account, 1, 100), end(tx))
		}
	}
	return way{
		name: "ent", handle: Ent(d.ent),
		add: client(func(ctx context.Context, c *ent.Client) error { return entAdd(ctx, c.Account, 1, 100) }),
		use: client(func(ctx context.Context, c *ent.Client) error {
			return c.Voucher.Create().SetID("used").SetMessage("again").Exec(ctx)
		}),
		own: []own{
			{"Tx and Commit", client(in((*ent.Tx).Commit)), nil, 100},
			{"Tx and Rollback", client(in((*ent.Tx).Rollback)), nil, 0},
			{"UpdateOne, which begins by itself", client(func(ctx context.Context, c *ent.Client) error {
				return c.Account.UpdateOneID(1).AddBalance(100).Exec(ctx)
			}), nil, 100},
		},
	}
}

func (d database) bunWay(b *bank) way {
	db := bun.NewDB(b.claims.Preparer().DB, d.bun)
	on := func(tx *sqlx.Tx) BunOn { return BunOn{db, tx} }
	return way{
		name: "bun", handle: Bun(db),
		add: func(ctx context.Context, tx *sqlx.Tx) error { return bunAdd(ctx, on(tx), 1, 100) },
		use: func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := on(tx).Insert(&bunVoucher{ID: "used", Message: "again"}).Exec(ctx)
			return err
		},
		own: []own{{"RunInTx", func(ctx context.Context, tx *sqlx.Tx) error {
			err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return bunAdd(ctx, BunOn{db, tx}, 1, 100) })
			return errors.Join(bunAdd(ctx, on(tx), 1, 100), err)
		}, store.ErrForbidden, 0}},
	}
}

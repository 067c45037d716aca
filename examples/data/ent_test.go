package data

import (
	"context"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/examples/data/ent"
)

// What entDriver is for.
func TestEntsOwnDriverCannotBegin(t *testing.T) {
	t.Parallel()
	b := openSQLite(t)
	b.reset()
	for name, use := range map[string]func(context.Context, *ent.Client) error{
		"Tx": func(ctx context.Context, c *ent.Client) error {
			_, err := c.Tx(ctx)
			return err
		},
		"UpdateOne": func(ctx context.Context, c *ent.Client) error {
			return c.Account.UpdateOneID(1).AddBalance(1).Exec(ctx)
		},
	} {
		err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) (err error) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic: entDriver may not be needed any more", name)
				}
				err = errors.Join(err, errChanged)
			}()
			return use(ctx, ent.NewClient(ent.Driver(entsql.NewDriver(dialect.SQLite, entsql.Conn{ExecQuerier: tx}))))
		})
		if !errors.Is(err, errChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.want(untouched)
}

// The savepoint goes although the context of the nested transaction has ended.
func TestEntRollsBackAfterItsContext(t *testing.T) {
	t.Parallel()
	b := openSQLite(t)
	b.reset()
	err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) error {
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		nested, err := EntOn(dialect.SQLite, tx.Tx).Tx(inner)
		if err != nil {
			return err
		}
		err = entAdd(ctx, nested.Account, 1, 100)
		cancel()
		return errors.Join(err, nested.Rollback())
	})
	if err != nil {
		t.Error(err)
	}
	want := untouched
	want.Claims = 1
	b.want(want)
}

package data

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// A GORM that cannot be opened closes the pool below, and finds it by reflection
// when it was given a transaction: that of the store. It opens another.
func TestGORMThatClosesTheStoresHandle(t *testing.T) {
	t.Parallel()
	b := openSQLite(t)
	b.reset()
	err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) error {
		_ = usePlain(ctx, tx) // dooms, so that GORM's question for the version fails
		_, err := gorm.Open(sqlite.New(sqlite.Config{Conn: tx.Tx}), &gorm.Config{Logger: logger.Discard})
		return errors.Join(err, errChanged)
	})
	if !errors.Is(err, errChanged) {
		t.Error(err)
	}
	if err := b.deliver(newMessage(t, Transfer{From: 1, To: 2, Cents: 300}), Sqlx); err != nil {
		t.Error(err)
	}
	b.want(books{One: 700, Two: 300, Ledger: 1, Vouchers: 1, Claims: 1})
}

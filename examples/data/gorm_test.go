package data

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	once "github.com/watermill-once/watermill-once/middleware"
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

// What gormTx is for: the context of a nested transaction ends in it.
func TestGORMRollsBackAfterItsContext(t *testing.T) {
	t.Parallel()
	b := openSQLite(t)
	db := openGORM(b)
	for name, test := range map[string]struct {
		on  func(ctx context.Context, tx *sqlx.Tx) *gorm.DB
		one int64
	}{
		"GORMOn": {func(ctx context.Context, tx *sqlx.Tx) *gorm.DB { return GORMOn(ctx, db, tx.Tx) }, 1000},
		"the transaction itself, as GORM would have it": {func(ctx context.Context, tx *sqlx.Tx) *gorm.DB {
			session := GORMOn(ctx, db, tx.Tx)
			session.Statement.ConnPool = tx.Tx
			return session
		}, 1100},
	} {
		b.reset()
		err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			err := test.on(ctx, tx).Transaction(func(db *gorm.DB) error {
				err := gormAdd(db, 1, 100)
				cancel()
				return errors.Join(err, errChanged)
			})
			if !errors.Is(err, errChanged) {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.want(books{One: test.one, Vouchers: 1, Claims: 1})
	}
}

// What once.Savepoint has and a library's own nested transaction has not.
func TestAfterCommitInANestedTransaction(t *testing.T) {
	t.Parallel()
	b := openSQLite(t)
	db, told := openGORM(b), 0
	tell := func(ctx context.Context) error {
		return errors.Join(once.AfterCommit(ctx, func(context.Context) { told++ }), errChanged)
	}
	err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) error {
		_ = once.Savepoint(ctx, tell)
		_ = GORMOn(ctx, db, tx.Tx).Transaction(func(*gorm.DB) error { return tell(ctx) })
		return nil
	})
	if err != nil || told != 1 {
		t.Errorf("told %d times, want 1, GORM's: %v", told, err)
	}
}

func openGORM(b *bank) *gorm.DB {
	b.Helper()
	db, err := gorm.Open(sqlite.New(sqlite.Config{Conn: b.claims.DB().DB}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		b.Fatal(err)
	}
	return db
}

package data

import (
	"context"
	"database/sql"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

type gormAccount struct{ ID, Balance int64 }

type gormEntry struct {
	ID, Message              string
	Debited, Credited, Cents int64
}

type gormVoucher struct{ ID, Message string }

func (gormAccount) TableName() string { return "accounts" }
func (gormEntry) TableName() string   { return "ledger" }
func (gormVoucher) TableName() string { return "vouchers" }

// GORM is the handler with GORM. db is the application's, opened once.
func GORM(db *gorm.DB) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		t, err := read(msg)
		if err != nil {
			return err
		}
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		return gormTransfer(GORMOn(msg.Context(), db, tx.Tx), msg.UUID, t)
	}
}

// GORMOn returns a session of db on the claim's transaction, made the way that
// GORM's own Begin makes one. GORM sees that it is in a transaction: Transaction
// sets a savepoint, and Begin fails. Opening GORM for each message, with the
// transaction as the dialector's Conn, is slower and has traps; see the
// package's documentation.
//
// Statements that GORM prepares (PrepareStmt) die with the transaction and gain
// nothing, so a session on it does not prepare, whatever db does.
func GORMOn(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.Session(&gorm.Session{
		Context: ctx, // it also makes the session's Statement its own: without, the next line would change db's
		NewDB:   true,
		// The claim's is there. GORM would notice by itself, but only after it tried.
		SkipDefaultTransaction: true,
	})
	session.Statement.ConnPool = &gormTx{tx} // a pointer: GORM asks whether it is nil
	return session
}

// gormTx is a *sql.Tx that undoes a nested transaction although its context has
// ended. database/sql does not send a statement then, and GORM drops the error
// of a rollback, so what was to be undone would be committed. That it is no
// *sql.Tx also keeps GORM's DB method from finding the store's own handle.
type gormTx struct{ *sql.Tx }

// ExecContext is how GORM sends what returns no rows.
func (tx *gormTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if strings.HasPrefix(query, "ROLLBACK TO ") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), store.DefaultRollback)
		defer cancel()
	}
	return tx.Tx.ExecContext(ctx, query, args...)
}

func gormTransfer(db *gorm.DB, id string, t Transfer) error {
	if err := gormAdd(db, t.From, -t.Cents); err != nil {
		return err
	}
	if err := gormAdd(db, t.To, t.Cents); err != nil {
		return err
	}
	entry := gormEntry{ID: watermill.NewUUID(), Message: id, Debited: t.From, Credited: t.To, Cents: t.Cents}
	if err := db.Create(&entry).Error; err != nil {
		return err
	}
	if t.Voucher != "" {
		err := db.Transaction(func(db *gorm.DB) error { // a savepoint
			if err := gormAdd(db, t.To, Bonus); err != nil {
				return err
			}
			return db.Create(&gormVoucher{ID: t.Voucher, Message: id}).Error
		})
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	var from gormAccount
	err := db.Take(&from, t.From).Error
	return covered(t.From, from.Balance, err)
}

func gormAdd(db *gorm.DB, account, cents int64) error {
	result := db.Model(&gormAccount{ID: account}).Update("balance", gorm.Expr("balance + ?", cents))
	return one(account, result.RowsAffected, result.Error)
}

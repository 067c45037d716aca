package data

import (
	"context"
	"database/sql"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	once "github.com/watermill-once/watermill-once/middleware"
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

// GORMOn returns a session of db on the claim's transaction, the way that
// GORM's own Begin makes one. Opening anew for each message, with the
// transaction as the dialector's Conn, works too; but then each message parses
// the models again, and MariaDB and SQLite are asked for their version.
//
// GORM sees that it is in a transaction: Transaction sets a savepoint, and Begin
// fails. Statements that GORM prepares (PrepareStmt) die with the transaction
// and gain nothing, so a session on it does not prepare, whatever db does.
func GORMOn(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.Session(&gorm.Session{
		Context: ctx, // it also makes the session's Statement its own: without, the next line would change db's
		NewDB:   true,
		// The claim's is there. GORM would notice by itself, but only after it tried.
		SkipDefaultTransaction: true,
	})
	session.Statement.ConnPool = tx
	return session
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

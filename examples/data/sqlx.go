package data

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// Sqlx is the handler with sqlx alone: what [once.Tx] returns is all it needs.
// The transaction has the driver's name, so Rebind and NamedExec know the
// database's placeholders.
func Sqlx(msg *message.Message) error {
	t, err := read(msg)
	if err != nil {
		return err
	}
	ctx := msg.Context()
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	if err := sqlxMove(ctx, tx, msg.UUID, t); err != nil {
		return err
	}
	if t.Voucher != "" {
		err := once.Savepoint(ctx, func(ctx context.Context) error {
			if err := sqlxAdd(ctx, tx, t.To, Bonus); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, tx.Rebind(`INSERT INTO vouchers (id, message) VALUES (?, ?)`), t.Voucher, msg.UUID)
			return err
		})
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	var balance int64
	err = tx.GetContext(ctx, &balance, tx.Rebind(`SELECT balance FROM accounts WHERE id = ?`), t.From)
	return covered(t.From, balance, err)
}

func sqlxMove(ctx context.Context, tx *sqlx.Tx, id string, t Transfer) error {
	if err := sqlxAdd(ctx, tx, t.From, -t.Cents); err != nil {
		return err
	}
	if err := sqlxAdd(ctx, tx, t.To, t.Cents); err != nil {
		return err
	}
	_, err := tx.NamedExecContext(ctx,
		`INSERT INTO ledger (id, message, debited, credited, cents) VALUES (:id, :message, :debited, :credited, :cents)`,
		map[string]any{"id": watermill.NewUUID(), "message": id, "debited": t.From, "credited": t.To, "cents": t.Cents})
	return err
}

func sqlxAdd(ctx context.Context, tx *sqlx.Tx, account, cents int64) error {
	result, err := tx.ExecContext(ctx, tx.Rebind(`UPDATE accounts SET balance = balance + ? WHERE id = ?`), cents, account)
	if err != nil {
		return one(account, 0, err)
	}
	n, err := result.RowsAffected()
	return one(account, n, err)
}

package data

import (
	"context"

	sq "github.com/Masterminds/squirrel"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// Squirrel is the handler with squirrel. A builder that runs with the
// transaction is made for each message; the format is [sq.Dollar] for
// PostgreSQL and [sq.Question] for MariaDB and SQLite.
func Squirrel(format sq.PlaceholderFormat) message.NoPublishHandlerFunc {
	statements := sq.StatementBuilder.PlaceholderFormat(format)
	return func(msg *message.Message) error {
		t, err := read(msg)
		if err != nil {
			return err
		}
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		return squirrelTransfer(msg.Context(), statements.RunWith(tx), msg.UUID, t)
	}
}

func squirrelTransfer(ctx context.Context, on sq.StatementBuilderType, id string, t Transfer) error {
	if err := squirrelAdd(ctx, on, t.From, -t.Cents); err != nil {
		return err
	}
	if err := squirrelAdd(ctx, on, t.To, t.Cents); err != nil {
		return err
	}
	_, err := on.Insert("ledger").Columns("id", "message", "debited", "credited", "cents").
		Values(watermill.NewUUID(), id, t.From, t.To, t.Cents).ExecContext(ctx)
	if err != nil {
		return err
	}
	if t.Voucher != "" {
		err := once.Savepoint(ctx, func(ctx context.Context) error {
			if err := squirrelAdd(ctx, on, t.To, Bonus); err != nil {
				return err
			}
			_, err := on.Insert("vouchers").Columns("id", "message").Values(t.Voucher, id).ExecContext(ctx)
			return err
		})
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	var balance int64
	err = on.Select("balance").From("accounts").Where(sq.Eq{"id": t.From}).ScanContext(ctx, &balance)
	return covered(t.From, balance, err)
}

func squirrelAdd(ctx context.Context, on sq.StatementBuilderType, account, cents int64) error {
	result, err := on.Update("accounts").Set("balance", sq.Expr("balance + ?", cents)).Where(sq.Eq{"id": account}).ExecContext(ctx)
	if err != nil {
		return one(account, 0, err)
	}
	n, err := result.RowsAffected()
	return one(account, n, err)
}

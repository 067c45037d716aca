package data

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/examples/data/sqlc/pgbank"
	"github.com/watermill-once/watermill-once/examples/data/sqlc/pgprepared"
	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// Queries are what sqlc generated; the packages of all databases have the same.
type Queries = pgbank.Querier

// Sqlc is the handler with sqlc. The generated New takes the transaction of
// [once.Tx] as it is:
//
//	Sqlc(func(tx *sqlx.Tx) Queries { return pgbank.New(tx) })
func Sqlc(on func(*sqlx.Tx) Queries) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		t, err := read(msg)
		if err != nil {
			return err
		}
		ctx := msg.Context()
		tx, err := once.Tx(ctx)
		if err != nil {
			return err
		}
		return sqlcTransfer(ctx, on(tx), msg.UUID, t)
	}
}

// SqlcPrepared is [Sqlc] with emit_prepared_queries. The statements have to be
// prepared on the store's own handle, once: the claim's transaction belongs to
// it, and database/sql refuses statements of any other. close frees them.
func SqlcPrepared(ctx context.Context, claims *store.SQL) (handle message.NoPublishHandlerFunc, closeStatements func() error, err error) {
	prepared, err := pgprepared.Prepare(ctx, claims.Preparer())
	if err != nil {
		return nil, nil, err
	}
	return Sqlc(func(tx *sqlx.Tx) Queries { return prepared.WithTx(tx.Tx) }), prepared.Close, nil
}

func sqlcTransfer(ctx context.Context, q Queries, id string, t Transfer) error {
	if err := sqlcAdd(ctx, q, t.From, -t.Cents); err != nil {
		return err
	}
	if err := sqlcAdd(ctx, q, t.To, t.Cents); err != nil {
		return err
	}
	if err := q.Book(ctx, watermill.NewUUID(), id, t.From, t.To, t.Cents); err != nil {
		return err
	}
	if t.Voucher != "" {
		err := once.Savepoint(ctx, func(ctx context.Context) error {
			if err := sqlcAdd(ctx, q, t.To, Bonus); err != nil {
				return err
			}
			return q.UseVoucher(ctx, t.Voucher, id)
		})
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	balance, err := q.Balance(ctx, t.From)
	return covered(t.From, balance, err)
}

func sqlcAdd(ctx context.Context, q Queries, account, cents int64) error {
	n, err := q.AddToBalance(ctx, cents, account)
	return one(account, n, err)
}

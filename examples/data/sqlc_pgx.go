package data

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/watermill-once/watermill-once/examples/data/sqlc/pgxbank"
	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store/postgres"
)

// SqlcPgx is the handler with what sqlc generates for pgx/v5, with :copyfrom and
// :batchexec. The generated New takes the raw connection, for as long as
// [postgres.Raw] lends it.
func SqlcPgx(msg *message.Message) error {
	t, err := read(msg)
	if err != nil {
		return err
	}
	ctx := msg.Context()
	if err := onPgx(ctx, func(q *pgxbank.Queries) error { return sqlcPgxMove(ctx, q, msg.UUID, t) }); err != nil {
		return err
	}
	if t.Voucher != "" {
		err := once.Savepoint(ctx, func(ctx context.Context) error { // around Raw: it is a statement too
			return onPgx(ctx, func(q *pgxbank.Queries) error { return sqlcPgxBonus(ctx, q, msg.UUID, t) })
		})
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	return onPgx(ctx, func(q *pgxbank.Queries) error {
		balance, err := q.Balance(ctx, t.From)
		return covered(t.From, balance, err)
	})
}

func onPgx(ctx context.Context, use func(*pgxbank.Queries) error) error {
	return postgres.Raw(ctx, func(c *pgx.Conn) error { return use(pgxbank.New(c)) })
}

func sqlcPgxMove(ctx context.Context, q *pgxbank.Queries, id string, t Transfer) error {
	if err := sqlcPgxAdd(ctx, q, t.From, -t.Cents); err != nil {
		return err
	}
	if err := sqlcPgxAdd(ctx, q, t.To, t.Cents); err != nil {
		return err
	}
	_, err := q.Book(ctx, []pgxbank.BookParams{
		{ID: watermill.NewUUID(), Message: id, Debited: t.From, Credited: t.To, Cents: t.Cents},
	})
	return err
}

func sqlcPgxBonus(ctx context.Context, q *pgxbank.Queries, id string, t Transfer) error {
	if err := sqlcPgxAdd(ctx, q, t.To, Bonus); err != nil {
		return err
	}
	return sqlcPgxUse(ctx, q, pgxbank.UseVoucherParams{ID: t.Voucher, Message: id})
}

// sqlcPgxUse returns a batch's first error. The generated Exec reports each and
// returns none.
func sqlcPgxUse(ctx context.Context, q *pgxbank.Queries, vouchers ...pgxbank.UseVoucherParams) (first error) {
	q.UseVoucher(ctx, vouchers).Exec(func(_ int, err error) {
		if first == nil {
			first = err
		}
	})
	return first
}

func sqlcPgxAdd(ctx context.Context, q *pgxbank.Queries, account, cents int64) error {
	n, err := q.AddToBalance(ctx, cents, account)
	return one(account, n, err)
}

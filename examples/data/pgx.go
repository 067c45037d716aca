package data

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store/postgres"
)

// Pgx is the handler with pgx's own connection, for what database/sql cannot
// say: COPY and batches. The pool has to be pgx's own, without a driver around
// it. An error of a function given to [postgres.Raw] dooms like that of a
// statement, and so does an error that it swallows, since PostgreSQL's
// transaction is aborted then.
//
// Begin must not be called on the raw connection: its Commit would be COMMIT.
func Pgx(msg *message.Message) error {
	t, err := read(msg)
	if err != nil {
		return err
	}
	ctx := msg.Context()
	if err := pgxMove(ctx, msg.UUID, t); err != nil {
		return err
	}
	if t.Voucher != "" {
		// The savepoint goes around Raw: it is a statement too, and only one may
		// use the connection at a time.
		err := once.Savepoint(ctx, func(ctx context.Context) error { return pgxBonus(ctx, msg.UUID, t) })
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	var balance int64
	err = postgres.Raw(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT balance FROM accounts WHERE id = $1`, t.From).Scan(&balance)
	})
	return covered(t.From, balance, err)
}

// pgxMove sends both updates in one round trip, and the ledger's row (think of
// thousands) by COPY.
func pgxMove(ctx context.Context, id string, t Transfer) error {
	return postgres.Raw(ctx, func(c *pgx.Conn) error {
		batch := &pgx.Batch{}
		queueAdd(batch, t.From, -t.Cents)
		queueAdd(batch, t.To, t.Cents)
		if err := c.SendBatch(ctx, batch).Close(); err != nil { // Close runs the functions, and has the first error
			return err
		}
		rows := [][]any{{watermill.NewUUID(), id, t.From, t.To, t.Cents}}
		n, err := c.CopyFrom(ctx, pgx.Identifier{"ledger"}, []string{"id", "message", "debited", "credited", "cents"}, pgx.CopyFromRows(rows))
		if err == nil && n != int64(len(rows)) {
			err = errors.New("rows of the ledger are missing")
		}
		return err
	})
}

func pgxBonus(ctx context.Context, id string, t Transfer) error {
	return postgres.Raw(ctx, func(c *pgx.Conn) error {
		batch := &pgx.Batch{}
		queueAdd(batch, t.To, Bonus)
		batch.Queue(`INSERT INTO vouchers (id, message) VALUES ($1, $2)`, t.Voucher, id)
		return c.SendBatch(ctx, batch).Close()
	})
}

func queueAdd(batch *pgx.Batch, account, cents int64) {
	batch.Queue(`UPDATE accounts SET balance = balance + $1 WHERE id = $2`, cents, account).Exec(func(tag pgconn.CommandTag) error {
		return one(account, tag.RowsAffected(), nil)
	})
}

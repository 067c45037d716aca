package data

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/uptrace/bun"

	once "github.com/watermill-once/watermill-once/middleware"
)

type bunAccount struct {
	bun.BaseModel `bun:"table:accounts"`
	ID            int64 `bun:",pk"`
	Balance       int64
}

type bunEntry struct {
	bun.BaseModel            `bun:"table:ledger"`
	ID                       string `bun:",pk"`
	Message                  string
	Debited, Credited, Cents int64
}

type bunVoucher struct {
	bun.BaseModel `bun:"table:vouchers"`
	ID            string `bun:",pk"`
	Message       string
}

// Bun is the handler with bun. A bun.Tx can be had from bun's own Begin only, so
// each query is told its connection, with Conn. [BunOn] does that, so that none
// is forgotten: without, a query runs on db's pool, outside of the claim.
//
// db is best made over the store's own handle, on which no transaction can be
// begun, so that a db.RunInTx in a handler fails instead of escaping:
//
//	bun.NewDB(claims.Preparer().DB, pgdialect.New())
func Bun(db *bun.DB) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		t, err := read(msg)
		if err != nil {
			return err
		}
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		return bunTransfer(msg.Context(), BunOn{db, tx}, msg.UUID, t)
	}
}

// BunOn makes queries of DB that run on Conn.
type BunOn struct {
	DB   *bun.DB
	Conn bun.IConn
}

// Insert is bun's NewInsert.
func (b BunOn) Insert(model any) *bun.InsertQuery {
	return b.DB.NewInsert().Conn(b.Conn).Model(model)
}

// Update is bun's NewUpdate.
func (b BunOn) Update(model any) *bun.UpdateQuery {
	return b.DB.NewUpdate().Conn(b.Conn).Model(model)
}

// Select is bun's NewSelect.
func (b BunOn) Select(model any) *bun.SelectQuery {
	return b.DB.NewSelect().Conn(b.Conn).Model(model)
}

func bunTransfer(ctx context.Context, b BunOn, id string, t Transfer) error {
	if err := bunAdd(ctx, b, t.From, -t.Cents); err != nil {
		return err
	}
	if err := bunAdd(ctx, b, t.To, t.Cents); err != nil {
		return err
	}
	entry := &bunEntry{ID: watermill.NewUUID(), Message: id, Debited: t.From, Credited: t.To, Cents: t.Cents}
	if _, err := b.Insert(entry).Exec(ctx); err != nil {
		return err
	}
	if t.Voucher != "" {
		err := once.Savepoint(ctx, func(ctx context.Context) error {
			if err := bunAdd(ctx, b, t.To, Bonus); err != nil {
				return err
			}
			_, err := b.Insert(&bunVoucher{ID: t.Voucher, Message: id}).Exec(ctx)
			return err
		})
		if err := unlessUsed(err); err != nil {
			return err
		}
	}
	from := &bunAccount{ID: t.From}
	err := b.Select(from).WherePK().Scan(ctx)
	return covered(t.From, from.Balance, err)
}

func bunAdd(ctx context.Context, b BunOn, account, cents int64) error {
	result, err := b.Update(&bunAccount{ID: account}).Set("balance = balance + ?", cents).WherePK().Exec(ctx)
	if err != nil {
		return one(account, 0, err)
	}
	n, err := result.RowsAffected()
	return one(account, n, err)
}

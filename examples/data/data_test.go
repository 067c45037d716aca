package data

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// way is one library, on one database.
type way struct {
	name   string
	handle message.NoPublishHandlerFunc
	// add puts 100 on account 1, use notes the voucher "used", which fails.
	add, use func(ctx context.Context, tx *sqlx.Tx) error
	own      []own
}

// own is something that the library offers to begin or end a transaction, or
// another way to set it up.
type own struct {
	name string
	call func(ctx context.Context, tx *sqlx.Tx) error
	is   error // what the attempt ends with; nil: it commits
	adds int64 // to account 1
}

var errChanged = errors.New("the handler changed its mind")

// over is what every way has to prove on a database.
func over(t *testing.T, open func(t *testing.T, opts ...store.Option) *bank, ways func(b *bank) []way) {
	t.Helper()
	b := open(t)
	for _, w := range ways(b) {
		t.Run(w.name, func(t *testing.T) {
			b := *b
			b.T = t
			for name, prove := range map[string]func(*bank, way){
				"once under redelivery":           provesOnce,
				"rolled back wholly":              provesRollback,
				"the nested transaction undone":   provesNested,
				"a swallowed failure dooms":       provesDoom,
				"what is its own does not escape": provesOwn,
			} {
				t.Run(name, func(t *testing.T) {
					b.T = t
					b.reset()
					prove(&b, w)
				})
			}
		})
	}
}

func provesOnce(b *bank, w way) {
	msg := newMessage(b.T, Transfer{From: 1, To: 2, Cents: 300, Voucher: "new"})
	b.publish(w.handle, msg, msg.Copy())
	b.want(books{One: 700, Two: 300 + Bonus, Ledger: 1, Vouchers: 2, Claims: 1})
	if first, second := <-b.outcomes, <-b.outcomes; first != once.Processed || second != once.Duplicate {
		b.Errorf("outcomes = %s, %s; want processed, duplicate", first, second)
	}
}

// The handler sees only at its end that the account does not cover the transfer.
// When there is more money, the redelivery runs it again.
func provesRollback(b *bank, w way) {
	msg := newMessage(b.T, Transfer{From: 1, To: 2, Cents: 1300, Voucher: "new"})
	if err := b.deliver(msg, w.handle); !errors.Is(err, ErrOverdrawn) {
		b.Errorf("%v, want ErrOverdrawn", err)
	}
	b.want(untouched)
	if _, err := b.claims.DB().ExecContext(b.Context(), `UPDATE accounts SET balance = 2000 WHERE id = 1`); err != nil {
		b.Fatal(err)
	}
	if err := b.deliver(msg, w.handle); err != nil {
		b.Error(err)
	}
	b.want(books{One: 700, Two: 1300 + Bonus, Ledger: 1, Vouchers: 2, Claims: 1})

	err := b.deliver(newMessage(b.T, Transfer{From: 1, To: 9, Cents: 1}), w.handle)
	if !errors.Is(err, ErrNoAccount) {
		b.Errorf("%v, want ErrNoAccount", err)
	}
	b.want(books{One: 700, Two: 1300 + Bonus, Ledger: 1, Vouchers: 2, Claims: 1})
}

func provesNested(b *bank, w way) {
	if err := b.deliver(newMessage(b.T, Transfer{From: 1, To: 2, Cents: 300, Voucher: "used"}), w.handle); err != nil {
		b.Error(err)
	}
	b.want(books{One: 700, Two: 300, Ledger: 1, Vouchers: 1, Claims: 1})
}

func provesDoom(b *bank, w way) {
	err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) error {
		if err := w.add(ctx, tx); err != nil {
			b.Error(err)
		}
		if err := w.use(ctx, tx); !duplicateKey(err) {
			b.Errorf("%v, want a duplicate key", err)
		}
		return nil
	})
	if !errors.Is(err, store.ErrDoomed) {
		b.Errorf("%v, want ErrDoomed", err)
	}
	b.want(untouched)
}

// Whatever the library did by itself, the attempt's end decides.
func provesOwn(b *bank, w way) {
	commit := own{"Commit of the transaction", func(ctx context.Context, tx *sqlx.Tx) error {
		err := w.add(ctx, tx)
		_ = tx.Commit()
		return err
	}, store.ErrForbidden, 0}
	for _, o := range append(w.own, commit) {
		b.reset()
		if err := b.attempt(o.call); !errors.Is(err, o.is) || (err == nil) != (o.is == nil) {
			b.Errorf("%s: %v, want %v", o.name, err, o.is)
		}
		want := untouched
		if want.One += o.adds; o.is == nil {
			want.Claims = 1
		}
		b.want(want)

		b.reset()
		err := b.attempt(func(ctx context.Context, tx *sqlx.Tx) error { _ = o.call(ctx, tx); return errChanged })
		if !errors.Is(err, errChanged) {
			b.Errorf("%s: %v, want the handler's own error", o.name, err)
		}
		b.want(untouched)
	}
}

package data

import (
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store"
)

// provesPreparedElsewhere prepares on the application's own pool, as sqlc's
// documentation has it.
func provesPreparedElsewhere(t *testing.T, open func(t *testing.T, opts ...store.Option) *bank, d database) {
	t.Helper()
	// database/sql refuses the statements in the claim's transaction, which is
	// another handle's.
	t.Run("sqlc, prepared on the pool", func(t *testing.T) {
		b := open(t)
		b.reset()
		err := b.deliver(newMessage(t, Transfer{From: 1, To: 2, Cents: 300}), Sqlc(d.prepared(b, b.claims.DB())))
		if err == nil || !strings.Contains(err.Error(), "statement from different database used") {
			t.Errorf("%v, want database/sql's refusal", err)
		}
		b.want(untouched)
	})
	// With store.Direct the transaction is the pool's; docs/databases.md has what
	// is lost.
	t.Run("sqlc, prepared on the pool of a direct store", func(t *testing.T) {
		b := open(t, store.Direct())
		b.reset()
		msg := newMessage(t, Transfer{From: 1, To: 2, Cents: 300, Voucher: "used"})
		handle := Sqlc(d.prepared(b, b.claims.DB()))
		for range 2 {
			if err := b.deliver(msg, handle); err != nil {
				t.Error(err)
			}
		}
		b.want(books{One: 700, Two: 300, Ledger: 1, Vouchers: 1, Claims: 1})
	})
}

package data

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/examples/data/sqlc/liteprepared"
	"github.com/watermill-once/watermill-once/store"
)

// Statements that were prepared on the application's own pool are refused by
// database/sql in the claim's transaction: it is another handle's.
func TestPreparedOnThePoolIsRefused(t *testing.T) {
	t.Parallel()
	b := openSQLite(t)
	b.reset()
	err := b.deliver(newMessage(t, Transfer{From: 1, To: 2, Cents: 300}), sqlcOnPool(b))
	if err == nil || !strings.Contains(err.Error(), "statement from different database used") {
		t.Errorf("%v, want database/sql's refusal", err)
	}
	b.want(untouched)
}

// With store.Direct the transaction is the pool's, so they work; what is lost
// stands in docs/databases.md.
func TestPreparedOnThePoolOfADirectStore(t *testing.T) {
	t.Parallel()
	b := openSQLite(t, store.Direct())
	b.reset()
	msg := newMessage(t, Transfer{From: 1, To: 2, Cents: 300})
	handle := sqlcOnPool(b)
	for range 2 {
		if err := b.deliver(msg, handle); err != nil {
			t.Error(err)
		}
	}
	b.want(books{One: 700, Two: 300, Ledger: 1, Vouchers: 1, Claims: 1})
}

func sqlcOnPool(b *bank) message.NoPublishHandlerFunc {
	q, err := liteprepared.Prepare(b.Context(), b.claims.DB())
	b.closes(q, err)
	return Sqlc(func(tx *sqlx.Tx) Queries { return q.WithTx(tx.Tx) })
}

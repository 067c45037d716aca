package main

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/examples/payments"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// The audit is what the demo's word rests on, so it has to find what is planted.

func TestAudit(t *testing.T) {
	t.Parallel()
	p := newPlan(7, 20, 0)
	victim := p.orders[3]
	move := func(b payments.Books, times int64) {
		b.Balances[victim.transfer.From] -= times * victim.transfer.Cents
		b.Balances[victim.transfer.To] += times * victim.transfer.Cents
	}
	tests := []struct {
		name  string
		plant func(payments.Books)
		want  audit // but for the money
		money int64 // found - expected
	}{
		{"all right", func(payments.Books) {}, audit{effects: 20}, 0},
		{"a loss", func(b payments.Books) {
			delete(b.Applied, victim.id)
			move(b, -1)
		}, audit{effects: 19, lost: 1, wrong: 2}, -victim.transfer.Cents},
		{"a double", func(b payments.Books) {
			b.Applied[victim.id] = 2
			move(b, 1)
		}, audit{effects: 21, doubled: 1, wrong: 2}, victim.transfer.Cents},
		{"a triple is one transfer", func(b payments.Books) {
			b.Applied[victim.id] = 3
			move(b, 2)
		}, audit{effects: 22, doubled: 1, wrong: 2}, 2 * victim.transfer.Cents},
		{"a loss and a double of the same sum", func(b payments.Books) {
			delete(b.Applied, victim.id)
			b.Applied[p.orders[4].id] = 2
		}, audit{effects: 20, lost: 1, doubled: 1}, 0},
		{"half a transfer", func(b payments.Books) {
			b.Balances[victim.transfer.From] += victim.transfer.Cents
		}, audit{effects: 20, wrong: 1}, 0},
		{"a stranger", func(b payments.Books) { b.Applied["unheard of"] = 1 }, audit{effects: 21, strange: 1}, 0},
		{"a stranger's account", func(b payments.Books) { b.Balances[99] = 0 }, audit{effects: 20, wrong: 1}, 0},
		{"an account gone", func(b payments.Books) { delete(b.Balances, customers) }, audit{effects: 20, wrong: 1}, 0},
		{"nothing done", func(b payments.Books) { clear(b.Applied) }, audit{lost: 20}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(p)
			books := booksOf(p)
			test.plant(books)
			got := l.audit(books)
			test.want.expected = inShops(l.balances)
			test.want.found = test.want.expected + test.money
			if got != test.want {
				t.Errorf("audit = %+v, want %+v", got, test.want)
			}
			if right := test.name == "all right"; got.right() != right {
				t.Errorf("right() = %t", got.right())
			}
		})
	}
}

// booksOf are the books in which each transfer was made once.
func booksOf(p *plan) payments.Books {
	l := newLedger(p)
	books := payments.Books{Balances: maps.Clone(l.balances), Applied: map[string]int{}}
	for id := range l.asked {
		books.Applied[id] = 1
	}
	return books
}

// The same through a real database: one transfer lost and one made twice, by
// the tables as the handler leaves them.
func TestAuditOfADatabase(t *testing.T) {
	t.Parallel()
	p := newPlan(8, 10, 0)
	db := openBank(t, p)
	for i, o := range p.orders {
		switch i {
		case 2: // lost
		case 5:
			apply(db, o)
			apply(db, o)
		default:
			apply(db, o)
		}
	}
	books, err := payments.ReadBooks(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	a := newLedger(p).audit(books)
	if a.lost != 1 || a.doubled != 1 || a.effects != 10 || a.right() {
		t.Errorf("audit = %+v, want one lost, one doubled", a)
	}
	if want := p.orders[5].transfer.Cents - p.orders[2].transfer.Cents; a.found-a.expected != want {
		t.Errorf("difference = %d, want %d", a.found-a.expected, want)
	}
}

func openBank(t *testing.T, p *plan) *sqlx.DB {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := payments.Install(t.Context(), s.DB(), p.opening()); err != nil {
		t.Fatal(err)
	}
	return s.DB()
}

func apply(db *sqlx.DB, o order) {
	db.MustExec(`UPDATE accounts SET balance = balance - ? WHERE id = ?`, o.transfer.Cents, o.transfer.From)
	db.MustExec(`UPDATE accounts SET balance = balance + ? WHERE id = ?`, o.transfer.Cents, o.transfer.To)
	db.MustExec(`INSERT INTO transfers VALUES (?, ?, ?, ?)`, o.id, o.transfer.From, o.transfer.To, o.transfer.Cents)
}

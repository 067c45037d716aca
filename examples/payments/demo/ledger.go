package main

import (
	"maps"

	"github.com/watermill-once/watermill-once/examples/payments"
)

// ledger is what the producer knows: which transfers it asked for, and what
// each account should therefore hold.
type ledger struct {
	asked    map[string]bool
	balances map[int]int64
}

func newLedger(p *plan) *ledger {
	l := &ledger{asked: make(map[string]bool, len(p.orders)), balances: maps.Clone(p.opening())}
	for _, o := range p.orders {
		l.asked[o.id] = true
		l.balances[o.transfer.From] -= o.transfer.Cents
		l.balances[o.transfer.To] += o.transfer.Cents
	}
	return l
}

// audit is how books compare with the ledger.
type audit struct {
	// effects counts how often any transfer was made.
	effects int
	// lost counts the transfers that were never made, doubled those that were
	// made more than once, strange those that nobody asked for.
	lost, doubled, strange int
	// wrong counts the accounts whose balance is not what it should be.
	wrong int
	// expected and found are what the shops should have and have, in cents.
	expected, found int64
}

func (l *ledger) audit(books payments.Books) audit {
	var a audit
	for id, n := range books.Applied {
		a.effects += n
		switch {
		case !l.asked[id]:
			a.strange++
		case n > 1:
			a.doubled++
		}
	}
	for id := range l.asked {
		if books.Applied[id] == 0 {
			a.lost++
		}
	}
	a.wrong = differing(l.balances, books.Balances)
	a.expected, a.found = inShops(l.balances), inShops(books.Balances)
	return a
}

// right reports whether every transfer was made exactly once.
func (a audit) right() bool {
	return a.lost == 0 && a.doubled == 0 && a.strange == 0 && a.wrong == 0 && a.expected == a.found
}

// differing counts the accounts that are not the same in both.
func differing(want, got map[int]int64) int {
	n := 0
	for account, cents := range want {
		if balance, ok := got[account]; !ok || balance != cents {
			n++
		}
	}
	for account := range got {
		if _, ok := want[account]; !ok {
			n++
		}
	}
	return n
}

func inShops(balances map[int]int64) int64 {
	var sum int64
	for account, cents := range balances {
		if account >= firstShop {
			sum += cents
		}
	}
	return sum
}

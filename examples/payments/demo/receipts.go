package main

import (
	"encoding/json"
	"sync"

	"github.com/watermill-once/watermill-once/examples/payments"
)

// receipts is the ledger of what a run sends: it notes all that arrives. It is
// safe for concurrent use.
type receipts struct {
	asked map[string]payments.Receipt // by transfer

	mu      sync.Mutex
	arrived map[string]*arrivals // by transfer
	strange int
}

// arrivals are those of one transfer.
type arrivals struct {
	total    int
	contents map[content]bool
	sentBy   map[sentBy]bool
}

// content is what has to be the same each time that a receipt arrives.
type content struct{ uuid, payload string }

func newReceipts(p *plan) *receipts {
	l := &receipts{asked: make(map[string]payments.Receipt, len(p.orders)), arrived: map[string]*arrivals{}}
	for _, o := range p.orders {
		l.asked[o.id] = payments.Receipt{Transfer: o.id, Cents: o.transfer.Cents}
	}
	return l
}

func (l *receipts) note(r receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var about payments.Receipt
	err := json.Unmarshal([]byte(r.Payload), &about)
	if want, ok := l.asked[about.Transfer]; err != nil || !ok || about != want {
		l.strange++
		return
	}
	a := l.arrived[about.Transfer]
	if a == nil {
		a = &arrivals{contents: map[content]bool{}, sentBy: map[sentBy]bool{}}
		l.arrived[about.Transfer] = a
	}
	a.total++
	a.contents[content{r.UUID, r.Payload}] = true
	a.sentBy[r.SentBy] = true
}

// complete reports whether each transfer has one.
func (l *receipts) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.arrived) == len(l.asked)
}

// receiptAudit is how the receipts compare with the transfers asked for.
type receiptAudit struct {
	expected int
	// found counts the transfers with a receipt, lost those without, doubled
	// those with several that differ in UUID or content.
	found, lost, doubled int
	// repeated counts receipts that came once more, the same in every byte.
	repeated int
	// strange counts receipts that are no transfer's, or name another sum.
	strange int
	// byDuplicate and byRelay count the transfers whose receipt was not sent by
	// the attempt that made the transfer, because it had died, and who did it.
	// Both may have.
	byDuplicate, byRelay int
}

func (l *receipts) audit() receiptAudit {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := receiptAudit{expected: len(l.asked), found: len(l.arrived), strange: l.strange}
	a.lost = a.expected - a.found
	for _, of := range l.arrived {
		a.repeated += of.total - len(of.contents)
		if len(of.contents) > 1 {
			a.doubled++
		}
		a.byDuplicate += of.rescued(byDuplicate)
		a.byRelay += of.rescued(byRelay)
	}
	return a
}

// rescued is 1 when by did what the attempt did not. The order of arrival would
// not tell: partitions are read one after the other.
func (a *arrivals) rescued(by sentBy) int {
	if a.sentBy[by] && !a.sentBy[byAttempt] {
		return 1
	}
	return 0
}

// right reports whether every transfer has a receipt, and only one.
func (a receiptAudit) right() bool { return a.lost == 0 && a.doubled == 0 && a.strange == 0 }

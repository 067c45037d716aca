package main

import (
	"encoding/json"
	"testing"

	"github.com/watermill-once/watermill-once/examples/payments"
)

func TestReceipts(t *testing.T) {
	t.Parallel()
	p := newPlan(7, 20, 0)
	first, second := p.orders[0], p.orders[1]
	tests := []struct {
		name  string
		plant []receipt // after each transfer's own but the first's and second's
		want  receiptAudit
	}{
		{"none lost", []receipt{of(first, "a", byAttempt), of(second, "b", byAttempt)}, receiptAudit{found: 20}},
		{"one lost", []receipt{of(first, "a", byAttempt)}, receiptAudit{found: 19, lost: 1}},
		{
			"one that comes three times",
			[]receipt{of(first, "a", byAttempt), of(first, "a", byDuplicate), of(first, "a", byRelay), of(second, "b", byAttempt)},
			receiptAudit{found: 20, repeated: 2},
		},
		{
			"one under two UUIDs, and one of them again",
			[]receipt{of(first, "a", byAttempt), of(first, "c", byAttempt), of(first, "a", byAttempt), of(second, "b", byAttempt)},
			receiptAudit{found: 20, doubled: 1, repeated: 1},
		},
		{
			"one UUID with two contents",
			[]receipt{of(first, "a", byAttempt), spaced(of(first, "a", byAttempt)), of(second, "b", byAttempt)},
			receiptAudit{found: 20, doubled: 1},
		},
		{
			"sent by others",
			[]receipt{of(first, "a", byDuplicate), of(second, "b", byRelay), of(second, "b", byRelay)},
			receiptAudit{found: 20, repeated: 1, byDuplicate: 1, byRelay: 1},
		},
		{
			"of no transfer, over another sum, and none at all",
			[]receipt{
				of(first, "a", byAttempt), of(second, "b", byAttempt),
				of(order{id: "unheard of"}, "c", byAttempt), of(order{id: first.id}, "d", byAttempt),
				{UUID: "e", Payload: "nothing"},
			},
			receiptAudit{found: 20, strange: 3},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newReceipts(p)
			for _, o := range p.orders[2:] {
				l.note(of(o, "of "+o.id, byAttempt))
			}
			for _, r := range test.plant {
				l.note(r)
			}
			test.want.expected = 20
			if a := l.audit(); a != test.want {
				t.Errorf("audit = %+v, want %+v", a, test.want)
			}
			if l.complete() != (test.want.lost == 0) {
				t.Errorf("complete = %t with %d lost", l.complete(), test.want.lost)
			}
		})
	}
}

// of is an order's receipt.
func of(o order, uuid string, by sentBy) receipt {
	payload, err := json.Marshal(payments.Receipt{Transfer: o.id, Cents: o.transfer.Cents})
	if err != nil {
		panic(err) // a string and a number
	}
	return receipt{UUID: uuid, Payload: string(payload), SentBy: by}
}

// spaced says the same in other bytes.
func spaced(r receipt) receipt {
	r.Payload += " "
	return r
}

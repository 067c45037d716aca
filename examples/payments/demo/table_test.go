package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

func right(g guarding) result {
	return result{
		guarding: g, messages: 1200, deliveries: 1500, duplicates: 250, kills: 3,
		audit:    audit{effects: 1200, expected: 123456789, found: 123456789},
		receipts: receiptAudit{expected: 1200, found: 1200, repeated: 30, byDuplicate: 2, byRelay: 1},
	}
}

func wrong(g guarding, lost, doubled int, difference int64) result {
	r := right(g)
	r.audit.lost, r.audit.doubled, r.audit.wrong = lost, doubled, 1
	r.audit.effects += doubled - lost
	r.audit.found += difference
	return r
}

// wrongReceipts is right but for receipts.
func wrongReceipts(g guarding, lost, doubled int) result {
	r := right(g)
	r.receipts = receiptAudit{expected: 1200, found: 1200 - lost, lost: lost, doubled: doubled}
	return r
}

func Example_table() {
	writeTable(os.Stdout, header, rows([]result{right(byOnce), wrong(byNothing, 0, 250, 2500000), wrong(byDeduplicator, 99, 11, -90001)}, row))
	// Output:
	//                           messages  deliveries  duplicates      effects  lost  doubled         money         money  difference
	//                                                 recognised  (transfers)                     expected         found
	// ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
	// watermill-once                1200        1500         250         1200     0        0  1,234,567.89  1,234,567.89        0.00
	// no dedup                      1200        1500           –         1450     0      250  1,234,567.89  1,259,567.89  +25,000.00
	// Watermill's Deduplicator      1200        1500         250         1112    99       11  1,234,567.89  1,233,667.88     -900.01
}

func Example_receiptTable() {
	writeTable(os.Stdout, receiptHeader, rows([]result{right(byOnce), wrongReceipts(byNothing, 0, 250), wrongReceipts(byDeduplicator, 99, 11)}, receiptRow))
	// Output:
	// receipts                  expected  found  lost      doubled     repeated  sent by a    sent by
	//                                                  (two UUIDs)  (same UUID)  duplicate  the relay
	// ───────────────────────────────────────────────────────────────────────────────────────────────
	// watermill-once                1200   1200     0            0           30          2          1
	// no dedup                      1200   1200     0          250            0          –          –
	// Watermill's Deduplicator      1200   1101    99           11            0          –          –
}

func TestPresent(t *testing.T) {
	t.Parallel()
	unlucky := func() []result {
		return []result{right(byOnce), wrong(byNothing, 0, 2, 200), wrong(byDeduplicator, 1, 0, -100)}
	}
	strange, shifted, forged := right(byOnce), right(byOnce), right(byOnce)
	strange.audit.strange = 1
	forged.receipts.strange = 1
	shifted.audit.wrong = 2 // balances differ although no transfer is missing
	tests := []struct {
		name    string
		results []result
		ok      bool
	}{
		{"as it should be", unlucky(), true},
		{"only one of the others is wrong", []result{right(byOnce), right(byNothing), wrong(byDeduplicator, 1, 0, -100)}, true},
		{"neither of the others is wrong", []result{right(byOnce), right(byNothing), right(byDeduplicator)}, false},
		{"ours lost", append([]result{wrong(byOnce, 1, 0, -100)}, unlucky()[1:]...), false},
		{"ours doubled", append([]result{wrong(byOnce, 0, 1, 100)}, unlucky()[1:]...), false},
		{"ours did what nobody asked for", append([]result{strange}, unlucky()[1:]...), false},
		{"only a receipt of the others is lost", []result{right(byOnce), wrongReceipts(byNothing, 1, 0), right(byDeduplicator)}, true},
		{"only a receipt of the others is doubled", []result{right(byOnce), right(byNothing), wrongReceipts(byDeduplicator, 0, 1)}, true},
		{"ours lost a receipt", append([]result{wrongReceipts(byOnce, 1, 0)}, unlucky()[1:]...), false},
		{"ours sent two receipts", append([]result{wrongReceipts(byOnce, 0, 1)}, unlucky()[1:]...), false},
		{"ours sent a receipt for nothing", append([]result{forged}, unlucky()[1:]...), false},
		{"ours shifted money", append([]result{shifted}, unlucky()[1:]...), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if ok := present(io.Discard, test.results); ok != test.ok {
				t.Errorf("present = %t, want %t", ok, test.ok)
			}
		})
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	ours := wrong(byOnce, 1, 2, 300)
	ours.receipts.lost = 3
	present(&out, []result{ours, right(byNothing), right(byDeduplicator)})
	if want := "\ndemo: messages=1200 deliveries=1500 effects=1201 duplicates=250 lost=1 doubled=2 receipts_lost=3\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("output ends with %q, want %q", out.String()[max(0, out.Len()-100):], want)
	}
}

func TestMoney(t *testing.T) {
	t.Parallel()
	for cents, want := range map[int64]string{0: "0.00", 7: "0.07", 99999: "999.99", 100000: "1,000.00", -123456789: "-1,234,567.89"} {
		if got := money(cents); got != want {
			t.Errorf("money(%d) = %q, want %q", cents, got, want)
		}
	}
}

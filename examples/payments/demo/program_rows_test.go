package main

import (
	"strconv"
	"strings"
	"testing"
)

// numbers are those of one guarding in the tables that tests look at.
type numbers struct {
	lost, doubled int
	receipts      receiptAudit
}

func rowOf(t *testing.T, out string, g guarding) numbers {
	t.Helper()
	transfers, receipts := cellsOf(t, out, g, header), cellsOf(t, out, g, receiptHeader)
	n := numbers{lost: number(t, transfers[4]), doubled: number(t, transfers[5])}
	n.receipts.lost, n.receipts.doubled = number(t, receipts[2]), number(t, receipts[3])
	if g == byOnce {
		n.receipts.byDuplicate, n.receipts.byRelay = number(t, receipts[5]), number(t, receipts[6])
	}
	return n
}

// cellsOf finds a row by its number of cells.
func cellsOf(t *testing.T, out string, g guarding, header [][]string) []string {
	t.Helper()
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(line, string(g)+" ")
		if cells := strings.Fields(rest); ok && len(cells) == len(header[0])-1 {
			return cells
		}
	}
	t.Fatalf("no row of %s:\n%s", g, out)
	return nil
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

var brokerNames = map[string]string{"gochannel": "a Go channel (no server)", "kafka": "Kafka"}

var storeNames = map[string]string{"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB"}

// introduce says what is about to happen.
func introduce(out io.Writer, o options, p *plan) {
	fmt.Fprintf(out, `%d transfers from %d customers to %d shops over %s into %s.
%d of them are sent twice. The handler fails now and then, and the consumer is
killed %d times while messages are in flight. Each transfer has a receipt to send.

`, o.messages, customers, shops, brokerNames[o.broker], storeNames[o.store], len(p.sendings)-o.messages, o.kills)
}

// present prints what was found, and returns whether the demo has shown what it
// is to show.
func present(out io.Writer, results []result) bool {
	fmt.Fprintln(out)
	writeTable(out, header, rows(results, row))
	fmt.Fprintln(out)
	writeTable(out, receiptHeader, rows(results, receiptRow))
	verdict, ok := judge(results)
	fmt.Fprintf(out, "\n%s\n\n", verdict)
	ours := results[0]
	fmt.Fprintf(out, "demo: messages=%d deliveries=%d effects=%d duplicates=%d lost=%d doubled=%d receipts_lost=%d\n",
		ours.messages, ours.deliveries, ours.audit.effects, ours.duplicates, ours.audit.lost, ours.audit.doubled, ours.receipts.lost)
	return ok
}

var header = [][]string{
	{"", "messages", "deliveries", "duplicates", "effects", "lost", "doubled", "money", "money", "difference"},
	{"", "", "", "recognised", "(transfers)", "", "", "expected", "found", ""},
}

var receiptHeader = [][]string{
	{"receipts", "expected", "found", "lost", "doubled", "repeated", "sent by a", "sent by"},
	{"", "", "", "", "(two UUIDs)", "(same UUID)", "duplicate", "the relay"},
}

func receiptRow(r result) []string {
	a := r.receipts
	cells := []string{
		string(r.guarding), strconv.Itoa(a.expected), strconv.Itoa(a.found), strconv.Itoa(a.lost),
		strconv.Itoa(a.doubled), strconv.Itoa(a.repeated),
	}
	if r.guarding != byOnce { // the others know but one who sends
		return append(cells, "–", "–")
	}
	return append(cells, strconv.Itoa(a.byDuplicate), strconv.Itoa(a.byRelay))
}

func rows(results []result, row func(result) []string) [][]string {
	list := make([][]string, len(results))
	for i, r := range results {
		list[i] = row(r)
	}
	return list
}

func row(r result) []string {
	duplicates := strconv.Itoa(r.duplicates)
	if r.guarding == byNothing {
		duplicates = "–"
	}
	return []string{
		string(r.guarding), strconv.Itoa(r.messages), strconv.Itoa(r.deliveries), duplicates,
		strconv.Itoa(r.audit.effects), strconv.Itoa(r.audit.lost), strconv.Itoa(r.audit.doubled),
		money(r.audit.expected), money(r.audit.found), difference(r.audit),
	}
}

func writeTable(out io.Writer, header, body [][]string) {
	rows := slices.Concat(header, body)
	widths := make([]int, len(rows[0]))
	widths[0] = nameWidth
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], width(cell))
		}
	}
	for i, cells := range rows {
		if i == len(header) {
			writeRule(out, widths)
		}
		writeRow(out, cells, widths)
	}
}

// writeRow sets names to the left and numbers to the right.
func writeRow(out io.Writer, cells []string, widths []int) {
	var line strings.Builder
	for i, cell := range cells {
		space := strings.Repeat(" ", widths[i]-width(cell))
		if i == 0 {
			line.WriteString(cell + space)
		} else {
			line.WriteString("  " + space + cell)
		}
	}
	fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
}

func writeRule(out io.Writer, widths []int) {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	fmt.Fprintln(out, strings.Repeat("─", total))
}

func width(s string) int { return len([]rune(s)) }

// money writes cents as 12,345.67.
func money(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	digits := strconv.FormatInt(cents/100, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return fmt.Sprintf("%s%s.%02d", sign, digits, cents%100)
}

func difference(a audit) string {
	d := a.found - a.expected
	if d > 0 {
		return "+" + money(d)
	}
	return money(d)
}

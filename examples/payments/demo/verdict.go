package main

import (
	"fmt"
	"strings"
)

// judge says in words what the table shows, and whether that is what the demo
// is to show: ours is right, and not because nothing went wrong.
func judge(results []result) (verdict string, ok bool) {
	ours, others := results[0], results[1:]
	sentences := []string{judgeOurs(ours)}
	trouble := false
	for _, r := range others {
		sentences = append(sentences, judgeOther(r))
		trouble = trouble || r.audit.lost+r.audit.doubled+r.receipts.lost+r.receipts.doubled > 0
	}
	if !trouble {
		sentences = append(sentences, nothingProven)
	}
	return strings.Join(sentences, "\n"), ours.right() && trouble
}

func (r result) right() bool { return r.audit.right() && r.receipts.right() }

const nothingProven = `NOTHING PROVEN: neither of the others lost or doubled anything.
    Try more -messages, more -kills or another -seed.`

func judgeOurs(r result) string {
	if !r.right() {
		return fmt.Sprintf("FAILED: %s: %s.\n    %d transfers were made that nobody asked for, %d accounts are wrong, %d receipts are strange.",
			r.guarding, damage(r), r.audit.strange, r.audit.wrong, r.receipts.strange)
	}
	return fmt.Sprintf("%s made each of the %d transfers exactly once, over %d deliveries and %d kills:\n"+
		"    every account is right to the cent, and each transfer's receipt arrived under one UUID.",
		r.guarding, r.messages, r.deliveries, r.kills)
}

func judgeOther(r result) string {
	name := strings.ToUpper(string(r.guarding[:1])) + string(r.guarding[1:])
	if r.right() {
		return name + " had luck this time."
	}
	return fmt.Sprintf("%s: %s.\n    %s", name, damage(r), reasons[r.guarding])
}

// reasons say where the damage of the others comes from.
var reasons = map[guarding]string{
	byNothing: "It takes every delivery for a new message.",
	byDeduplicator: "It marks a message before the handler has succeeded, so it drops the redelivery of one that failed;\n" +
		"    and it forgets all marks when the process dies.",
}

func damage(r result) string {
	a := r.audit
	return fmt.Sprintf("%d transfers lost, %d doubled; the shops have %s; %d receipts lost, %d doubled",
		a.lost, a.doubled, surplus(a), r.receipts.lost, r.receipts.doubled)
}

func surplus(a audit) string {
	switch d := a.found - a.expected; {
	case d > 0:
		return money(d) + " too much"
	case d < 0:
		return money(-d) + " too little"
	default:
		return "the right sum"
	}
}

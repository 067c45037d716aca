package main

import (
	"reflect"
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		p := newPlan(seed, 200, 4)
		if !reflect.DeepEqual(p, newPlan(seed, 200, 4)) {
			t.Fatalf("seed %d makes two plans", seed)
		}
		checkSendings(t, seed, p)
		checkKills(t, seed, p)
	}
	if reflect.DeepEqual(newPlan(1, 200, 4), newPlan(2, 200, 4)) {
		t.Error("two seeds make one plan")
	}
}

// checkSendings wants each order once or twice, and some of the second ones at
// once and some later.
func checkSendings(t *testing.T, seed uint64, p *plan) {
	t.Helper()
	last := map[int]int{}
	atOnce, later := 0, 0
	for i, order := range p.sendings {
		before, again := last[order]
		switch {
		case again && before == i-1:
			atOnce++
		case again:
			later++
		}
		last[order] = i
	}
	if len(last) != len(p.orders) {
		t.Errorf("seed %d: %d of %d orders are sent", seed, len(last), len(p.orders))
	}
	if atOnce == 0 || later == 0 || atOnce+later != len(p.sendings)-len(p.orders) {
		t.Errorf("seed %d: %d sent again at once, %d later, %d sendings", seed, atOnce, later, len(p.sendings))
	}
}

func checkKills(t *testing.T, seed uint64, p *plan) {
	t.Helper()
	inOrder := slices.IsSortedFunc(p.kills, func(a, b kill) int { return a.at - b.at })
	if len(p.kills) != 4 || !inOrder || p.kills[0].at < 1 || p.kills[3].at >= len(p.sendings) {
		t.Errorf("seed %d: kills at %v of %d", seed, p.kills, len(p.sendings))
	}
	for i, want := range []moment{beforeSending, afterSending, anywhere, beforeSending} {
		if p.kills[i].moment != want {
			t.Errorf("seed %d: kill %d is %s, want %s", seed, i, p.kills[i].moment, want)
		}
	}
}

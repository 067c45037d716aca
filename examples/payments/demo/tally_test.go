package main

import (
	"slices"
	"testing"
)

func TestTallyCounts(t *testing.T) {
	t.Parallel()
	y := newTally(3)
	y.nextConsumer(0)
	for _, r := range []report{
		{eventDelivered, 0},
		{eventDelivered, 1},
		{eventNacked, 1},
		{eventAcked, 0},
		{eventDelivered, 0},
		{eventDuplicate, 0},
		{eventAcked, 0}, // again
		{eventDelivered, 1},
	} {
		if y.apply(r) {
			t.Errorf("%+v is no reason to kill", r)
		}
	}
	if done, inFlight := y.now(); done != 1 || inFlight != 1 || y.deliveries != 4 || y.duplicates != 1 {
		t.Errorf("done %d, in flight %d, deliveries %d, duplicates %d; want 1, 1, 4, 1", done, inFlight, y.deliveries, y.duplicates)
	}
	if left := y.unacked(); !slices.Equal(left, []int{1, 2}) {
		t.Errorf("unacked = %v, want [1 2]", left)
	}
}

// The consumer dies once, behind the point, and only with something in flight.
func TestTallyKills(t *testing.T) {
	t.Parallel()
	y := newTally(4)
	y.nextConsumer(2)
	steps := []struct {
		report report
		kill   bool
	}{
		{report{eventDelivered, 0}, false},
		{report{eventDelivered, 1}, false},
		{report{eventAcked, 0}, false},
		{report{eventAcked, 1}, false}, // at the point, but nothing is in flight
		{report{eventDelivered, 2}, true},
		{report{eventDelivered, 3}, false}, // it is dead already
	}
	for _, step := range steps {
		if kill := y.apply(step.report); kill != step.kill {
			t.Errorf("%+v: kill = %t, want %t", step.report, kill, step.kill)
		}
	}
	y.nextConsumer(0)
	if _, inFlight := y.now(); inFlight != 0 {
		t.Errorf("a new consumer begins with %d in flight", inFlight)
	}
}

func TestTallyAllAcked(t *testing.T) {
	t.Parallel()
	y := newTally(2)
	for _, sending := range []int{0, 0, 1} {
		select {
		case <-y.allAcked:
			t.Fatal("too early")
		default:
		}
		y.apply(report{eventDelivered, sending})
		y.apply(report{eventAcked, sending})
	}
	<-y.allAcked
}

package main

import (
	"slices"
	"testing"
)

func TestTallyCounts(t *testing.T) {
	t.Parallel()
	y := newTally(3)
	y.nextConsumer(kill{})
	for _, r := range []report{
		said(eventDelivered, 0),
		said(eventDelivered, 1),
		said(eventNacked, 1),
		said(eventAcked, 0),
		said(eventDelivered, 0),
		said(eventDuplicate, 0),
		said(eventAcked, 0), // again
		said(eventDelivered, 1),
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
	y.nextConsumer(kill{2, anywhere})
	steps := []struct {
		report report
		kill   bool
	}{
		{said(eventDelivered, 0), false},
		{said(eventDelivered, 1), false},
		{said(eventAcked, 0), false},
		{said(eventAcked, 1), false}, // at the point, but nothing is in flight
		{said(eventDelivered, 2), true},
		{said(eventDelivered, 3), false}, // it is dead already
	}
	for _, step := range steps {
		if kill := y.apply(step.report); kill != step.kill {
			t.Errorf("%+v: kill = %t, want %t", step.report, kill, step.kill)
		}
	}
	y.nextConsumer(kill{})
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
		y.apply(said(eventDelivered, sending))
		y.apply(said(eventAcked, sending))
	}
	<-y.allAcked
}

func said(e event, sending int) report { return report{Event: e, Sending: sending} }

// A consumer that hangs is killed there, and not before.
func TestTallyKillsTheHung(t *testing.T) {
	t.Parallel()
	y := newTally(2)
	y.nextConsumer(kill{1, beforeSending})
	for _, e := range []event{eventDelivered, eventDelivered, eventAcked, eventReceipt} {
		if y.apply(said(e, 0)) {
			t.Errorf("%s is no reason to kill", e)
		}
	}
	if !y.apply(said(eventHung, 0)) {
		t.Error("it hangs and is not killed")
	}
	if y.apply(said(eventHung, 0)) {
		t.Error("it is killed twice")
	}
}

package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
)

// A consumer that hangs while its parent dies, and so is killed by nobody, ends
// like any other: what it has committed is sent and acked.
func TestConsumerThatHangsAndIsNotKilled(t *testing.T) {
	t.Parallel()
	for _, m := range []moment{beforeSending, afterSending} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			p := newPlan(seedOfPeace(t, 10), 10, 0)
			d, err := newDatabase(t.Context(), "sqlite", freshName(), p.opening())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.close(t.Context()) })
			a := assignment{Guarding: byOnce, Broker: "gochannel", Store: "sqlite", DSN: d.dsn, Hang: hang{Moment: m}}
			events := hangAndLeave(t, a, p.parcel(0))
			before := slices.Index(events, eventReceipt) < slices.Index(events, eventHung)
			if last := events[len(events)-1]; last != eventAcked || before != (m == afterSending) {
				t.Errorf("events = %v", events)
			}
		})
	}
}

// hangAndLeave is a parent that goes away when its consumer hangs.
func hangAndLeave(t *testing.T, a assignment, messages ...parcel) (events []event) {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- consume(t.Context(), in, out)
		_ = out.Close() // never fails
	}()
	given := make(chan error, 1)
	go func() { given <- give(stdin, a, messages) }()
	for reports := json.NewDecoder(stdout); ; {
		var r report
		if err := reports.Decode(&r); err != nil {
			break
		}
		events = append(events, r.Event)
		if r.Event == eventHung {
			_ = stdin.Close() // never fails
		}
	}
	if err := errors.Join(<-given, <-ended); err != nil {
		t.Error(err)
	}
	return events
}

func give(stdin io.Writer, a assignment, messages []parcel) error {
	lines := json.NewEncoder(stdin)
	err := lines.Encode(a)
	for _, m := range messages {
		err = errors.Join(err, lines.Encode(m))
	}
	return err
}

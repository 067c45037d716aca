package main

import "sync"

// tally counts what a run's consumers report. It is safe for concurrent use.
type tally struct {
	// allAcked is closed when every sending was acked at least once.
	allAcked chan struct{}

	mu         sync.Mutex
	acked      []bool // by sending
	done       int    // how many of them
	deliveries int
	duplicates int
	inFlight   int // delivered to the present consumer and not settled
	kill       kill
}

func newTally(sendings int) *tally {
	return &tally{allAcked: make(chan struct{}), acked: make([]bool, sendings)}
}

// nextConsumer begins the count of what is in flight. This consumer is to be
// killed as k says; the zero kill is never.
func (t *tally) nextConsumer(k kill) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight = 0
	t.kill = k
}

// apply counts a report. It returns true, once, when the time has come to kill
// the consumer, and messages are in flight.
func (t *tally) apply(r report) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Event {
	case eventDelivered:
		t.deliveries++
		t.inFlight++
	case eventAcked:
		t.inFlight--
		t.ack(r.Sending)
	case eventNacked:
		t.inFlight--
	case eventDuplicate:
		t.duplicates++
	}
	if !t.due(r.Event) {
		return false
	}
	t.kill = kill{}
	return true
}

func (t *tally) due(last event) bool {
	switch t.kill.moment {
	case "":
		return false
	case anywhere:
		return t.done >= t.kill.at && t.inFlight > 0
	default: // the consumer hangs when it is there
		return last == eventHung
	}
}

// ack notes the first ack of a sending; where the broker did not get it, more
// follow.
func (t *tally) ack(sending int) {
	if t.acked[sending] {
		return
	}
	t.acked[sending] = true
	t.done++
	if t.done == len(t.acked) {
		close(t.allAcked)
	}
}

func (t *tally) unacked() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var left []int
	for sending, acked := range t.acked {
		if !acked {
			left = append(left, sending)
		}
	}
	return left
}

// now returns how many sendings were acked and how many deliveries are in
// flight.
func (t *tally) now() (done, inFlight int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done, t.inFlight
}

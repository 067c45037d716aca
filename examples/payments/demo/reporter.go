package main

import (
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

// sendingField is the metadata that tells one sending of a transfer from the
// other. Nobody but the reports looks at it.
const sendingField = "sending"

// reporter tells the parent what becomes of each message. It only watches: it
// is the same for every guarding and every broker.
type reporter struct {
	mu    sync.Mutex
	lines *json.Encoder

	acked     atomic.Int64
	following sync.WaitGroup
}

func newReporter(out io.Writer) *reporter {
	return &reporter{lines: json.NewEncoder(out)}
}

// follow reports a delivery, and later whether it was acked or nacked.
func (r *reporter) follow(msg *message.Message, acked func()) {
	sending, err := strconv.Atoi(msg.Metadata.Get(sendingField))
	if err != nil {
		return // not of this demo
	}
	r.tell(report{Event: eventDelivered, Sending: sending})
	r.following.Go(func() {
		select {
		case <-msg.Acked():
			r.acked.Add(1)
			r.tell(report{Event: eventAcked, Sending: sending})
			if acked != nil {
				acked()
			}
		case <-msg.Nacked():
			r.tell(report{Event: eventNacked, Sending: sending})
		}
	})
}

func (r *reporter) duplicate() { r.tell(report{Event: eventDuplicate}) }

// acks is how many deliveries were acked.
func (r *reporter) acks() int { return int(r.acked.Load()) }

// tell reports what the parent can do without. When it cannot, the parent is
// gone, and the end of stdin says so as well.
func (r *reporter) tell(line report) { _ = r.report(line) }

// report writes one line at once, so that it is out when the process is killed.
func (r *reporter) report(line report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.Encode(line)
}

// wait returns when all that was delivered is settled.
func (r *reporter) wait() { r.following.Wait() }

package main

import (
	"encoding/json"
	"io"
	"strconv"
	"sync"

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
	r.report(eventDelivered, sending)
	r.following.Go(func() {
		select {
		case <-msg.Acked():
			r.report(eventAcked, sending)
			if acked != nil {
				acked()
			}
		case <-msg.Nacked():
			r.report(eventNacked, sending)
		}
	})
}

func (r *reporter) duplicate() { r.report(eventDuplicate, 0) }

// report writes one line at once, so that it is out when the process is killed.
// When it cannot, the parent is gone, and the end of stdin says so as well.
func (r *reporter) report(e event, sending int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.lines.Encode(report{Event: e, Sending: sending}) //nolint:errchkjson // see above
}

// wait returns when all that was delivered is settled.
func (r *reporter) wait() { r.following.Wait() }

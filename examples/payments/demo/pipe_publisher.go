package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// pipePublisher gives receipts to the parent, which keeps them as a broker does:
// what was written to the pipe is read from it, also when the writer was killed.
type pipePublisher struct{ reports *reporter }

func (p pipePublisher) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		travel()
		if err := p.reports.report(report{Event: eventReceipt, Receipt: receiptOf(msg)}); err != nil {
			return fmt.Errorf("send a receipt: %w", err)
		}
		travel()
	}
	return nil
}

func (p pipePublisher) Close() error { return nil }

// travel is the way to a broker or back. Within a machine it takes no time, so
// hardly any kill would hit between the commit and the ack, where all the trouble
// comes from.
func travel() { <-time.After(3*time.Millisecond + rand.N(10*time.Millisecond)) }

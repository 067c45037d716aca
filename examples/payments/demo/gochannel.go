package main

import "context"

// broker is the parent's side of how messages get to the consumers.
type broker interface {
	// assign tells a consumer where to subscribe.
	assign(a *assignment)
	// serve brings messages to a consumer that was just started, and returns
	// when it is gone or there is nothing left to bring.
	serve(p *process)
	// run returns when the stream was consumed to its end. It is called once,
	// beside all consumers.
	run(ctx context.Context) error
	// collect notes all receipts that were sent until now.
	collect(ctx context.Context, into *receipts) error
	// close removes what the run leaves behind.
	close() error
}

// pipeBroker keeps the messages for gochannel, which itself keeps nothing: it
// sends each consumer, through its stdin, all that was never acked.
type pipeBroker struct {
	plan  *plan
	tally *tally
}

func (b *pipeBroker) assign(*assignment) {}

func (b *pipeBroker) serve(p *process) {
	for _, sending := range b.tally.unacked() {
		if p.send(b.plan.parcel(sending)) != nil {
			return // it was killed; the next consumer gets the rest
		}
	}
}

func (b *pipeBroker) run(ctx context.Context) error {
	select {
	case <-b.tally.allAcked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collect has nothing to do: receipts come with the reports.
func (b *pipeBroker) collect(context.Context, *receipts) error { return nil }

func (b *pipeBroker) close() error { return nil }

package main

import (
	"context"
	"errors"
	"time"
)

const (
	receiptsPoll = 50 * time.Millisecond
	// receiptsBound is how long a receipt may take when all transfers were
	// acked. The relay sends one by one, and again what a kill left unmarked.
	receiptsBound = 20 * time.Second
)

// consumeAll starts consumers, and kills them, until the stream is at its end.
func (r *run) consumeAll(ctx context.Context) (kills int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan error, 1)
	go func() {
		finished <- r.broker.run(ctx)
		close(finished)
	}()
	defer func() {
		cancel()
		for range finished { // wait until it has ended, too
		}
	}()
	for {
		again, err := r.consumeOnce(ctx, r.nextKill(kills), finished)
		if err != nil || !again {
			return kills, err
		}
		kills++
	}
}

func (r *run) nextKill(kills int) kill {
	if kills < len(r.plan.kills) {
		return r.plan.kills[kills]
	}
	return kill{}
}

// consumeOnce is the life of one consumer. again says that it was killed.
func (r *run) consumeOnce(ctx context.Context, k kill, finished <-chan error) (again bool, err error) {
	r.tally.nextConsumer(k)
	p, err := startProcess(ctx, r.assignment(k), r.heard)
	if err != nil {
		return false, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.broker.serve(p)
	}()
	defer func() { <-served }() // it ends with the process
	defer p.end()               // does nothing to one that has ended

	select {
	case err := <-finished:
		if err != nil {
			return false, why(ctx, err)
		}
		if err := r.awaitReceipts(ctx); err != nil {
			return false, why(ctx, err)
		}
		return false, p.stop()
	case <-p.exited:
		if !p.killed {
			return false, why(ctx, errors.Join(errGone, p.failure))
		}
		_, inFlight := r.tally.now()
		r.show.killed(k.moment, inFlight)
		return true, nil
	}
}

// awaitReceipts gives the relay of the last consumer time to send what is
// missing. Only this library has one.
func (r *run) awaitReceipts(ctx context.Context) error {
	ticker := time.NewTicker(receiptsPoll)
	defer ticker.Stop()
	bound := time.After(receiptsBound)
	for {
		if err := r.broker.collect(ctx, r.receipts); err != nil {
			return err
		}
		if r.guarding != byOnce || r.receipts.complete() {
			return nil
		}
		select {
		case <-ticker.C:
		case <-bound:
			return nil // those are lost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// why prefers the reason for the end of ctx to what followed from it.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

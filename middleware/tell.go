package once

import (
	"context"
	"errors"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// errExited is what an attempt ends with whose handler called runtime.Goexit,
// as the require functions of tests do.
var errExited = errors.New("the handler ended its goroutine with runtime.Goexit")

// tell sends the events at the end of an attempt, with the one that counts it
// last.
func (a *attempt) tell(v verdict, failures int, backoff time.Duration) {
	a.told = true
	if !a.guard.observed() {
		return
	}
	a.tellBeside(v)
	err := v.err
	if v.outcome == Dropped {
		err = a.dropped
	}
	a.guard.observe(a.parent, AttemptEnded{
		Subject:   a.about,
		Outcome:   v.outcome,
		Err:       err,
		Class:     store.ClassOf(err),
		Took:      time.Since(a.began),
		Waited:    a.waited,
		Held:      a.held,
		Backoff:   backoff,
		Failures:  failures,
		ClaimedAt: a.result.ClaimedAt,
		Age:       a.result.Age,
		Retries:   a.result.Retries,
		Outputs:   a.outputs,
	})
}

// tellBeside sends what the attempt noticed by the way.
func (a *attempt) tellBeside(v verdict) {
	if a.scope.seat != nil {
		a.scope.seat.chain.tell(a)
	}
	switch {
	case v.outcome == Duplicate && a.reused:
		a.guard.observe(a.parent, KeyReused{Subject: a.about, ClaimedAt: a.result.ClaimedAt, Age: a.result.Age})
	case v.outcome == Processed && a.unused():
		a.guard.observe(a.parent, TxUnused{a.about})
	}
}

// unused reports whether nothing was written through the transaction. The guard
// knows when a handler never asked for it, the store when it was not used. Do
// hands it over unasked.
func (a *attempt) unused() bool {
	return a.result.Unused || a.msg != nil && !a.scope.wasAsked()
}

// lookAround notices what a router cannot tell the guard in any other way.
func (a *attempt) lookAround() {
	if isClosed(a.acked) || isClosed(a.nacked) {
		a.settledBefore = true
		a.problem(SettledBefore, "the message was settled before the guard got it, so the broker forgets it whatever happens now",
			"put InstantAck, and whatever else acks or nacks, out of the chain")
	}
	if errors.Is(a.parent.Err(), context.DeadlineExceeded) {
		a.problem(DeadOnArrival, "the deadline of the message's context had passed before the guard got it, so the handler could not run",
			"where Retry stands outside a Timeout, set its ResetContextOnRetry, or put the Timeout inside the guard")
	}
}

func (a *attempt) problem(p Problem, detail, fix string) {
	if a.guard.observed() {
		a.guard.observe(a.parent, ChainProblem{Subject: a.about, Problem: p, Detail: detail, Fix: fix})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

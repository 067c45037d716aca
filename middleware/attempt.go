package once

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// attempt is one run through the guard. It belongs to the goroutine that runs
// it, but for life and done, which have their locks. It is one allocation: its
// scope is what the context carries, its lifetime the context itself.
type attempt struct {
	guard    *Guard
	settings *settings
	msg      *message.Message // nil in Do
	parent   context.Context  // the message's own, or the caller's
	began    time.Time
	about    Subject

	sum   [sha256.Size]byte
	claim store.Claim
	life  life
	scope scope

	ran           bool  // the handler was called
	committed     bool  // the store said so
	skipped       bool  // it returned ErrSkip
	refused       bool  // it did what cannot be committed
	reused        bool  // taken for a duplicate although its payload differs
	dropped       error // reported, and then hidden by what stands around the handler
	settledBefore bool  // before the guard got the message
	handlerErr    error // what it returned
	endedBy       error // how the context had ended by then

	waited    time.Duration // for the limiter
	held      time.Duration // while the store was away
	heldSince time.Time     // when it was first away
	holds     int

	produced []*produced        // by the handler, in order
	answer   []*message.Message // what the router is to send
	outputs  int                // stored by this attempt, or found unsent

	result   store.Result
	told     bool // the attempt's last event was sent
	returned bool // neither a panic nor a Goexit is under way

	acked, nacked <-chan struct{} // the message's, as they were at first
	done          chan struct{}   // made by whoever waits, under inflight's lock
}

// work claims the message and runs fn in the claim's transaction; while the
// store is not available it holds the message, if that is allowed, and tries
// again. No slot and no transaction is held meanwhile.
func (a *attempt) work(fn store.Func, hold bool) (store.Result, error) {
	for {
		result, err := a.try(fn)
		if !hold || !a.holdable(err) || !a.hold(err) {
			return result, err
		}
	}
}

// try asks the store once, in a slot of the limiter. The slot is given back on
// every way out, also a panic's.
func (a *attempt) try(fn store.Func) (store.Result, error) {
	if err := a.guard.startLazily(); err != nil {
		return store.Result{}, err
	}
	if err := a.acquire(); err != nil {
		return store.Result{}, err
	}
	defer a.guard.limiter.release()
	return a.guard.store.Do(a.context(), a.claim, fn)
}

func (a *attempt) acquire() error {
	wait, err := a.guard.limiter.acquire(a.parent, a.guard.closing)
	a.waited += wait
	return err
}

// context is what the store and the hooks get.
func (a *attempt) context() context.Context { return (*lifetime)(a) }

// enter is called by the store in the claim's transaction. From here on the
// attempt outlives its message's cancellation for the drain time.
func (a *attempt) enter(ctx context.Context, tx *sqlx.Tx) (context.Context, error) {
	if !a.life.run(a.parent) {
		return nil, context.Cause(a.parent)
	}
	a.ran = true
	a.scope.open(tx)
	if ctx.Value(scopeKey{}) != &a.scope { // a store that does not hand on our context
		ctx = context.WithValue(ctx, scopeKey{}, &a.scope)
	}
	return ctx, nil
}

// leave decides whether what the handler did may be committed. The transaction
// is out of reach from here on, also for a goroutine that it left behind.
func (a *attempt) leave(returned []*message.Message, err error) ([]store.Output, error) {
	a.handlerErr = err
	a.endedBy = a.context().Err()
	a.skipped = errors.Is(err, ErrSkip)
	wrong, reported := a.scope.wrong()
	switch {
	case wrong != nil:
		a.refused = true
		return nil, wrong
	case err != nil:
		return nil, err
	case a.endedBy != nil:
		return nil, a.endedBy
	case a.nackedInside():
		return nil, errNacked
	case reported != nil:
		a.dropped = reported
		return nil, reported
	}
	return a.collect(returned)
}

// nackedInside reports whether the handler nacked the message. One that it
// acked is only told of: that cannot be taken back, and the work is done.
func (a *attempt) nackedInside() bool {
	if a.settledBefore || a.msg == nil {
		return false
	}
	if isClosed(a.msg.Acked()) {
		a.problem(SettledInside, "the handler acked the message before the commit, so the broker forgets it also when the commit fails",
			"return nil and leave the ack to the router")
	}
	return isClosed(a.msg.Nacked())
}

// identify finds what the claim is made of, before any statement is sent.
func (a *attempt) identify() error {
	key, err := keyOf(a.settings.key, a.msg)
	if err != nil {
		return err
	}
	a.about.Key = key
	a.claim.Key = key
	a.claim.Outputs = a.guard.publishes.Load() || a.scope.seat.returns()
	a.claim.Fingerprint, err = a.settings.fingerprintInto(&a.sum, a.msg)
	return err
}

// nested reports whether the attempt runs inside another one on the same store,
// where it would wait for itself: for the claim, or for a slot of the limiter.
func (a *attempt) nested() bool {
	a.scope.guard, a.scope.store = a.guard, a.guard.identity
	a.scope.outer, _ = a.parent.Value(scopeKey{}).(*scope)
	for outer := a.scope.outer; outer != nil; outer = outer.outer {
		if outer.live() && outer.store == a.guard.identity {
			return true
		}
	}
	return false
}

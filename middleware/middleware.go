package once

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// Middleware makes a handler's effects happen once. It belongs innermost, right
// around the handler; [Guard.Plugin] puts it there. Added by hand, as in
//
//	router.AddMiddleware(recoverer, poison, retry, guard.Middleware)
//
// it has to come last, no handler may have a middleware of its own that belongs
// outside, and names in [Config.Handlers] are not checked at start.
//
// It needs the names that a Watermill router puts into the message's context.
// For what is no message of a router there is [Guard.Do].
func (g *Guard) Middleware(next message.HandlerFunc) message.HandlerFunc {
	return g.place(next, false)
}

// plugged is Middleware where the publishers are decorated.
func (g *Guard) plugged(next message.HandlerFunc) message.HandlerFunc {
	return g.place(next, true)
}

func (g *Guard) place(next message.HandlerFunc, plugged bool) message.HandlerFunc {
	p := &place{guard: g, chain: newChain(next), plugged: plugged}
	return func(msg *message.Message) ([]*message.Message, error) {
		return g.handle(p, next, msg)
	}
}

// handle is the way of one message through the guard.
func (g *Guard) handle(p *place, next message.HandlerFunc, msg *message.Message) ([]*message.Message, error) {
	a := g.newAttempt(msg)
	if !g.inflight.enter(a) {
		return nil, a.late(p)
	}
	defer g.inflight.leave(a)
	defer a.unwind()

	v := a.finish(a.receive(p, next))
	a.returned = true
	return a.answer, v.err
}

func (g *Guard) newAttempt(msg *message.Message) *attempt {
	a := &attempt{
		guard:  g,
		msg:    msg,
		parent: msg.Context(),
		began:  time.Now(),
		acked:  msg.Acked(),
		nacked: msg.Nacked(),
	}
	a.about.UUID = msg.UUID
	return a
}

// receive decides about the message: first by what it is, then by its claim.
func (a *attempt) receive(p *place, next message.HandlerFunc) verdict {
	if err := p.seatFor(a); err != nil {
		return a.refuse(store.ClassTransient, err)
	}
	if when := a.settings.when; when != nil && !when(a.msg) {
		return verdict{outcome: Skipped}
	}
	if a.nested() {
		return a.refuse(store.ClassTransient, fmt.Errorf("%w: %w: the guard is in the chain twice, or the handler's context was given to another message", store.ErrNested, ErrChain))
	}
	if err := a.identify(); err != nil {
		return a.fail(NoKey, store.ClassPermanent, err)
	}
	a.lookAround()

	var err error
	a.result, err = a.work(a.run(next), true)
	return a.judge(a.result, err)
}

// run is what the store calls in the claim's transaction.
func (a *attempt) run(next message.HandlerFunc) store.Func {
	return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		ctx, err := a.enter(ctx, tx)
		if err != nil {
			return nil, err
		}
		defer a.scope.close()
		a.msg.SetContext(ctx)
		return a.leave(callHandler(next, a.msg))
	}
}

// callHandler marks on the stack where the guard ends and the handler's own
// middlewares begin; see chain.lookDown.
//
//go:noinline
func callHandler(next message.HandlerFunc, msg *message.Message) ([]*message.Message, error) {
	returned, err := next(msg)
	runtime.KeepAlive(msg) // no tail call, so that the frame stays
	return returned, err
}

// finish does what follows from the verdict before the broker is told.
func (a *attempt) finish(v verdict) verdict {
	v = a.follow(v)
	if v.err == nil {
		a.succeeded()
		a.tell(v, 0, 0)
		return v
	}
	failures, wait := a.backoff()
	a.tell(v, failures, wait)
	pause(a.parent, wait, a.guard.closing)
	return v
}

// follow does what has to happen behind the commit, now or at the attempt that
// made it.
func (a *attempt) follow(v verdict) verdict {
	defer a.life.close()
	if v.outcome == Processed {
		a.committed = true
		a.scope.commit()
		a.runHooks()
	}
	if v.outcome == Processed || v.outcome == Duplicate {
		if err := a.send(); err != nil {
			return a.fail(Unsent, store.ClassTransient, err)
		}
	}
	return v
}

// unwind is deferred around the whole attempt. After it the message's context
// is what it was, however the attempt ended.
//
// A panic goes on with its value and, since the stack is still there, its
// trace. A Goexit shows as neither a return nor a panic: Watermill would leave
// the message unsettled for ever, so the guard nacks it.
func (a *attempt) unwind() {
	a.life.close()
	a.msg.SetContext(a.parent)
	if a.returned {
		return
	}
	if p := recover(); p != nil {
		a.broken(Panicked, fmt.Errorf("the handler panicked: %v", p))
		panic(p)
	}
	a.broken(Exited, errExited)
	a.msg.Nack()
}

// broken ends an attempt that did not return: everything was rolled back by the
// store, unless it was a hook that went wrong after the commit.
func (a *attempt) broken(o Outcome, err error) {
	if a.told {
		return
	}
	if a.committed {
		a.tell(verdict{outcome: Processed}, 0, 0)
		return
	}
	v := a.fail(o, store.ClassHandler, err)
	failures, wait := a.backoff()
	a.tell(v, failures, wait)
	pause(a.parent, wait, a.guard.closing)
}

// late answers a message that comes when the guard is closed. The wait keeps a
// router that goes on from turning in circles.
func (a *attempt) late(p *place) error {
	_ = p.seatFor(a) // only for the names
	v := a.fail(Cancelled, store.ClassTransient, ErrClosed)
	a.tell(v, 0, a.guard.config.BackoffMin)
	pause(a.parent, a.guard.config.BackoffMin, nil)
	return v.err
}

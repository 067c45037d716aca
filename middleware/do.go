package once

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// Result says how [Guard.Do] ended.
type Result struct {
	// Duplicate is true when the key has a committed claim, so that the function
	// did not run.
	Duplicate bool
	// ClaimedAt is when that claim was made and Age how long ago, both by the
	// database's clock. Only for a duplicate.
	ClaimedAt time.Time
	Age       time.Duration
}

// Do runs fn once for a key, for what is no message of a router: a webhook, a
// timer. It claims (consumer, key) like a message, runs fn in the claim's
// transaction and commits. [Tx], [Savepoint], [AfterCommit] and [ErrSkip] work
// in ctx as they do in a handler.
//
// name is the second part of the consumer, "service/name"; it must not be a
// handler's. It is written into the program, not made from data. key is
// required and not blank. No payload is compared.
//
// It differs from a message in what a caller who waits wants: an error comes at
// once, without holding or back-off, and when ctx is cancelled so is the work,
// without a drain time. An error of fn is returned with the consumer and the key
// around it; those of the guard are the same as for a message. Inside an attempt
// on the same store the error is store.ErrNested. A panic of fn goes on.
func (g *Guard) Do(ctx context.Context, name, key string, fn func(ctx context.Context, tx *sqlx.Tx) error) (Result, error) {
	a := &attempt{guard: g, parent: ctx, began: time.Now()}
	a.about = Subject{Handler: name, Key: key}
	if !g.inflight.enter(a) {
		v := a.fail(Cancelled, store.ClassTransient, ErrClosed)
		a.tell(v, 0, 0)
		return Result{}, v.err
	}
	defer g.inflight.leave(a)
	defer a.unwindDo()

	v := a.finishDo(a.do(name, key, fn)) //nolint:contextcheck // the attempt has its context
	a.returned = true
	return Result{Duplicate: v.outcome == Duplicate, ClaimedAt: a.result.ClaimedAt, Age: a.result.Age}, v.err
}

// do is receive for a call.
func (a *attempt) do(name, key string, fn func(context.Context, *sqlx.Tx) error) verdict {
	if err := a.name(name); err != nil {
		return a.refuse(store.ClassPermanent, err)
	}
	if err := checkKey(key); err != nil {
		return a.fail(NoKey, store.ClassPermanent, fmt.Errorf("%w: %w", ErrNoKey, err))
	}
	if a.nested() {
		return a.refuse(store.ClassPermanent, store.ErrNested)
	}
	a.claim.Key = key
	a.claim.Outputs = a.guard.publishes.Load()
	var err error
	a.result, err = a.work(a.runFunc(fn), false) //nolint:contextcheck // the attempt has its context
	return a.judge(a.result, err)
}

// name gives the attempt its consumer.
func (a *attempt) name(name string) error {
	g := a.guard
	consumer, err := consumerName(g.config.Service, name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	a.about.Consumer = consumer
	a.settings = &g.doSettings
	a.claim = a.settings.claim(&g.config, consumer)
	return g.consumers.free(consumer)
}

func (a *attempt) runFunc(fn func(context.Context, *sqlx.Tx) error) store.Func {
	return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		ctx, err := a.enter(ctx, tx)
		if err != nil {
			return nil, err
		}
		defer a.scope.close()
		return a.leave(nil, callFunc(ctx, tx, fn))
	}
}

// callFunc marks on the stack where a function of [Guard.Do] begins; see
// insideHandler.
//
//go:noinline
func callFunc(ctx context.Context, tx *sqlx.Tx, fn func(context.Context, *sqlx.Tx) error) error {
	err := fn(ctx, tx)
	runtime.KeepAlive(tx) // no tail call, so that the frame stays
	return err
}

func (a *attempt) finishDo(v verdict) verdict {
	v = a.follow(v)
	a.tell(v, 0, 0)
	return v
}

// unwindDo counts an attempt that did not return. There is no message to
// settle, so a Goexit needs nothing else.
func (a *attempt) unwindDo() {
	a.life.close()
	if a.returned || a.told {
		return
	}
	if p := recover(); p != nil {
		a.tell(a.fail(Panicked, store.ClassHandler, fmt.Errorf("the function panicked: %v", p)), 0, 0)
		panic(p)
	}
	a.tell(a.fail(Exited, store.ClassHandler, errExited), 0, 0)
}

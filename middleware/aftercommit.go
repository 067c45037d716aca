package once

import (
	"context"
	"errors"
	"runtime/debug"
)

// hook is a function that runs after the commit.
type hook func(ctx context.Context)

// AfterCommit has fn run once the writes of the attempt in ctx are committed,
// before the message is acknowledged: to tell a cache, to wake a worker. Hooks
// run in the order in which they were added.
//
// They do not run when the attempt is rolled back, for a duplicate, or when the
// answer to the commit was lost: the process may also die between the commit
// and the hook. So nothing may depend on a hook; what has to happen belongs in
// the transaction.
//
// fn gets a context with the values of the message's context, without the
// transaction, which ends with the message's deadline or when the drain time is
// over. A panic in fn is an event ([HookFailed]) and the other hooks run.
// Outside an attempt the error is [ErrNoTx].
func AfterCommit(ctx context.Context, fn func(ctx context.Context)) error {
	s, err := scopeOf(ctx)
	if err != nil {
		return err
	}
	if fn == nil {
		return errors.New("once.AfterCommit: the function is nil")
	}
	return s.add(fn)
}

// runHooks runs outside of the slot, so that a hook may use Do.
func (a *attempt) runHooks() {
	for _, h := range a.scope.take() {
		a.runHook(h)
	}
}

func (a *attempt) runHook(h hook) {
	defer func() {
		if p := recover(); p != nil && a.guard.observed() {
			a.guard.observe(a.parent, HookFailed{Subject: a.about, Panic: p, Stack: debug.Stack()})
		}
	}()
	h(a.context())
}

package once

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errDrained is why a context ends that outlived its message's for too long.
var errDrained = errors.New("the drain time is over")

// lifetime is the context of an attempt: the values and the deadline of the
// message's context, but not its cancellation. Brokers cancel a message at once
// when they close, and half-done work would be thrown away that was about to
// commit; so an attempt whose handler runs gets the drain time. In Do, where a
// caller waits, a cancellation counts.
//
// It is the attempt itself under another method set, and leaves everything that
// package context does to an inner context, which is made when somebody first
// wants to know when it ends: so it costs nothing until then.
type lifetime attempt

// Deadline is the parent's.
func (c *lifetime) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done is the inner context's.
func (c *lifetime) Done() <-chan struct{} { return (*attempt)(c).inner().Done() }

// Err is the inner context's. While there is none and the parent goes on,
// nothing has ended.
func (c *lifetime) Err() error {
	if c.life.idle() && c.parent.Err() == nil {
		return nil
	}
	return (*attempt)(c).inner().Err()
}

// Value finds the scope while the handler runs. What runs after the commit gets
// this context too and is not inside the attempt, though it comes from it. Package context finds the
// inner context here, so that children hang on it without a goroutine each.
func (c *lifetime) Value(key any) any {
	if key == (scopeKey{}) && c.scope.live() {
		return &c.scope
	}
	if key == (originKey{}) {
		return &c.scope
	}
	if inner := c.life.made(); inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

// root is under the inner context: the parent, cut off from its end if the
// attempt is to outlive it.
type root attempt

func (r *root) Deadline() (time.Time, bool) { return time.Time{}, false }
func (r *root) Value(key any) any           { return r.parent.Value(key) }

func (r *root) Done() <-chan struct{} {
	if r.msg != nil {
		return nil
	}
	return r.parent.Done()
}

func (r *root) Err() error {
	if r.msg != nil {
		return nil
	}
	return r.parent.Err()
}

// life is how an attempt's context comes to its end. Its lock is for those that
// ask and those that end it from outside: the parent's cancellation, the drain
// timer, Close.
type life struct {
	mu      sync.Mutex
	running bool // the handler was called
	over    bool // the attempt is at its end
	timer   *time.Timer

	ctx     context.Context
	cancel  context.CancelCauseFunc
	release context.CancelFunc // of the deadline's timer
	unwatch func() bool
}

func (l *life) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx == nil && !l.over
}

func (l *life) made() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx
}

// inner returns the inner context and makes it if need be.
func (a *attempt) inner() context.Context {
	l := &a.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil {
		return l.ctx
	}
	l.ctx, l.cancel = context.WithCancelCause((*root)(a))
	if a.msg != nil {
		a.watch()
	}
	if l.over { // asked by what the handler left behind
		l.free()
	}
	return l.ctx
}

// watch follows the parent. A deadline of its own makes the context end with
// DeadlineExceeded, which a cancellation could not.
func (a *attempt) watch() {
	l := &a.life
	if deadline, ok := a.parent.Deadline(); ok {
		l.ctx, l.release = context.WithDeadline(l.ctx, deadline)
	}
	if a.parent.Done() != nil {
		l.unwatch = context.AfterFunc(a.parent, a.parentEnded)
	}
}

// parentEnded runs in a goroutine of package context when the parent ended. An
// attempt that only waits ends at once, one whose handler runs gets the drain
// time.
func (a *attempt) parentEnded() {
	l := &a.life
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
	case l.release != nil && errors.Is(a.parent.Err(), context.DeadlineExceeded): // the same deadline ends this one
	case l.running:
		l.timer = time.AfterFunc(a.guard.config.Drain, func() { l.cancel(errDrained) })
	default:
		l.cancel(context.Cause(a.parent))
	}
}

// run notes that the handler is about to be called; false when the parent ended
// before.
func (l *life) run(parent context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if parent.Err() != nil {
		return false
	}
	l.running = true
	return true
}

// end cancels the attempt from outside.
func (a *attempt) end(cause error) {
	a.inner()
	a.life.mu.Lock()
	defer a.life.mu.Unlock()
	a.life.cancel(cause)
}

// close ends the context for good. It may be called twice.
func (l *life) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.free()
}

// free lets go of what the inner context holds.
func (l *life) free() {
	if l.unwatch != nil {
		l.unwatch()
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.release != nil {
		l.release()
	}
	if l.cancel != nil {
		l.cancel(nil)
	}
}

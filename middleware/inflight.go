package once

import (
	"context"
	"sync"
)

// inflight holds the attempts that have not returned yet.
type inflight struct {
	mu       sync.Mutex
	attempts map[*attempt]struct{}
	closed   bool
}

// enter takes an attempt in, unless the guard is closed.
func (f *inflight) enter(a *attempt) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.attempts[a] = struct{}{}
	return true
}

func (f *inflight) leave(a *attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.attempts, a)
	if a.done != nil {
		close(a.done)
	}
}

// close lets no attempt in any more.
func (f *inflight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// pending is an attempt to wait for.
type pending struct {
	attempt       *attempt
	done          <-chan struct{}
	acked, nacked <-chan struct{} // nil when nobody can tell
}

// snapshot lists the attempts that are in flight now.
func (f *inflight) snapshot() []pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]pending, 0, len(f.attempts))
	for a := range f.attempts {
		if a.done == nil {
			a.done = make(chan struct{})
		}
		list = append(list, pending{attempt: a, done: a.done, acked: a.acked, nacked: a.nacked})
	}
	return list
}

// settle waits until each attempt of a snapshot has returned and its message is
// settled, which the router does later. It returns those that were not when ctx
// ended.
func settle(ctx context.Context, list []pending) []pending {
	var left []pending
	for _, p := range list {
		if !p.settled(ctx) {
			left = append(left, p)
		}
	}
	return left
}

// settled prefers a yes to the end of ctx, so that it can be asked with a
// context that has ended.
func (p pending) settled(ctx context.Context) bool {
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-ctx.Done():
			return false
		}
	}
	if p.acked == nil || p.nacked == nil {
		return true
	}
	select {
	case <-p.acked:
		return true
	case <-p.nacked:
		return true
	default:
	}
	select {
	case <-p.acked:
		return true
	case <-p.nacked:
		return true
	case <-ctx.Done():
		return false
	}
}

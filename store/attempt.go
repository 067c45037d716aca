package store

import (
	"context"
	"sync/atomic"
)

type attemptKey struct{}

// running marks a context as being inside one attempt on one store, as long as
// the attempt runs: a handler may hand its context on to what outlives it.
type running struct {
	id    any
	outer *running
	over  atomic.Bool
}

// WithAttempt marks ctx as being inside an attempt on the store that id stands
// for, until end is called. For implementations of [Store]: it is the context
// that fn gets.
func WithAttempt(ctx context.Context, id any) (inside context.Context, end func()) {
	outer, _ := ctx.Value(attemptKey{}).(*running)
	r := &running{id: id, outer: outer}
	return context.WithValue(ctx, attemptKey{}, r), func() { r.over.Store(true) }
}

// InAttempt reports whether ctx is inside an attempt on the store that id
// stands for, which has not ended; a store answers [ErrNested] then instead of
// waiting for itself.
func InAttempt(ctx context.Context, id any) bool {
	r, _ := ctx.Value(attemptKey{}).(*running)
	for ; r != nil; r = r.outer {
		if r.id == id && !r.over.Load() {
			return true
		}
	}
	return false
}

package store

import "context"

type attemptKey struct{}

// attempt marks a context as being inside one attempt on one store.
type attempt struct {
	id    any
	outer *attempt
}

// WithAttempt marks ctx as being inside an attempt on the store that id stands
// for. For implementations of [Store]: it is the context that fn gets.
func WithAttempt(ctx context.Context, id any) context.Context {
	outer, _ := ctx.Value(attemptKey{}).(*attempt)
	return context.WithValue(ctx, attemptKey{}, &attempt{id: id, outer: outer})
}

// InAttempt reports whether ctx is inside an attempt on the store that id
// stands for; a store answers [ErrNested] then instead of waiting for itself.
func InAttempt(ctx context.Context, id any) bool {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	for ; a != nil; a = a.outer {
		if a.id == id {
			return true
		}
	}
	return false
}

package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/watermill-once/watermill-once/store"
)

// Lookup finds the claim of one message. handler is the name that was given to
// AddHandler or [Guard.Do], key what the handler's [KeyFunc] returns for the
// message. It returns false when there is none. A claim that is not committed
// yet is not seen.
//
// The error is errors.ErrUnsupported when the store cannot do it.
func (g *Guard) Lookup(ctx context.Context, handler, key string) (store.Found, bool, error) {
	i, consumer, err := g.inspector(handler)
	if err != nil {
		return store.Found{}, false, err
	}
	return i.Lookup(ctx, consumer, key)
}

// Forget removes the claim of one message, so that the handler runs again when
// the message comes again, and reports whether there was one. What the first
// run wrote stays. It is for an operator; arguments and errors are those of
// [Guard.Lookup].
func (g *Guard) Forget(ctx context.Context, handler, key string) (bool, error) {
	i, consumer, err := g.inspector(handler)
	if err != nil {
		return false, err
	}
	return i.Forget(ctx, consumer, key)
}

func (g *Guard) inspector(handler string) (store.Inspector, string, error) {
	consumer, err := g.config.consumer(handler)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrConfig, err)
	}
	i, ok := g.store.(store.Inspector)
	if !ok {
		return nil, "", fmt.Errorf("the store %T cannot look up claims: %w", g.store, errors.ErrUnsupported)
	}
	return i, consumer, nil
}

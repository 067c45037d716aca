package once

import (
	"context"
	"time"
)

// limiter bounds how many attempts run at once, over all handlers and brokers.
// gochannel hands over a thousand messages at once; a pool has a dozen
// connections.
type limiter chan struct{}

// acquire waits for a slot until ctx ends or the guard is closed, and says how
// long it waited.
func (l limiter) acquire(ctx context.Context, closing <-chan struct{}) (time.Duration, error) {
	select {
	case <-closing:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, ctx.Err()
	default:
	}
	select {
	case l <- struct{}{}:
		return 0, nil
	default:
	}
	began := time.Now()
	select {
	case l <- struct{}{}:
		return time.Since(began), nil
	case <-closing:
		return time.Since(began), ErrClosed
	case <-ctx.Done():
		return time.Since(began), ctx.Err()
	}
}

func (l limiter) release() { <-l }

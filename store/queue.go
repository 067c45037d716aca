package store

import (
	"context"
	"fmt"
	"time"
)

// queue lets one attempt at a time at a database that has one writer. The
// order is that of arrival, where the database's own lock would let the
// luckiest poller win. A nil queue lets everybody pass.
type queue chan struct{}

// enter waits for a place, at most wait: past it some other handler is at
// work, which this database cannot tell from a copy in flight.
func (q queue) enter(ctx context.Context, wait time.Duration) error {
	if q == nil {
		return nil
	}
	select {
	case q <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case q <- struct{}{}:
		return nil
	case <-ctx.Done():
		return WithClass(ClassTransient, ctx.Err())
	case <-timer.C:
		return fmt.Errorf("%w: waited %s for the one writer of this database", ErrInFlight, wait)
	}
}

func (q queue) leave() {
	if q != nil {
		<-q
	}
}

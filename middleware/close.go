package once

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Close ends the guard: it takes no new attempt (a message that comes now fails
// with [ErrClosed]), waits until those in flight have returned and their
// messages are settled, stops the purger and the relay, marks the outputs that
// were sent, and closes what the store opened itself. The application's pool stays open.
//
// It waits for at most Config.Drain, or until ctx ends; then it cancels the
// attempts that are left, which rolls them back, and gives them Config.Rollback
// to do so while ctx lasts. The error says how many did not end; each of them
// is committed whole or not at all.
//
// It is idempotent: later calls wait for the first one and return its error.
// Close the guard before the router, and both before the database. A handler
// must not call it: it would wait for itself.
func (g *Guard) Close(ctx context.Context) error {
	if !g.shutOnce() {
		select {
		case <-g.closed:
			return g.closeErr
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(g.closed)
	g.closeErr = g.close(ctx)
	return g.closeErr
}

// shutOnce reports whether the caller is the first to close.
func (g *Guard) shutOnce() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.shut = true
	g.inflight.close()
	close(g.closing)
	g.stop()
	return true
}

func (g *Guard) close(ctx context.Context) error {
	began := time.Now()
	left := g.drain(ctx)
	workers := g.joinWorkers(ctx)
	g.markLast(ctx)
	err := errors.Join(left.err(time.Since(began)), workers, g.closeStore())
	g.observe(ctx, Closed{Left: len(left), Took: time.Since(began)})
	return err
}

// drain waits for what is in flight, first kindly and then not.
func (g *Guard) drain(ctx context.Context) leftover {
	kind, cancel := context.WithTimeout(ctx, g.config.Drain)
	defer cancel()
	left := settle(kind, g.inflight.snapshot())
	if len(left) == 0 {
		return nil
	}
	for _, p := range left {
		p.attempt.end(errDrained)
	}
	grace, cancel := context.WithTimeout(ctx, g.config.Rollback)
	defer cancel()
	return settle(grace, left)
}

// leftover are attempts that did not end in time.
type leftover []pending

func (l leftover) err(after time.Duration) error {
	if len(l) == 0 {
		return nil
	}
	return fmt.Errorf("%d attempts have not ended after %s: let handlers watch their context, or set a longer Drain", len(l), after.Round(time.Millisecond))
}

func (g *Guard) closeStore() error {
	c, ok := g.store.(io.Closer)
	if !ok {
		return nil
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

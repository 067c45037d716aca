package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// startBound is how long a start may take that no caller bounds.
const startBound = 15 * time.Second

// flight is a start under way, which others wait for.
type flight struct {
	done chan struct{}
	err  error
}

// Start verifies the store (schema, reachability, durability, pool) and starts
// the purger and the relay. The plugin calls it, and without the plugin the first message;
// call it yourself to fail early. It is idempotent, may be called concurrently
// and again after it failed.
//
// The error is the store's (store.ErrSchema, store.ErrUnavailable), [ErrClosed]
// or that of ctx.
func (g *Guard) Start(ctx context.Context) error {
	f, mine, err := g.board()
	switch {
	case err != nil || f == nil:
		return err
	case mine:
		return g.fly(ctx, f)
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startLazily is Start for a message. A failure is the store's, never the
// message's, so the message is held and a later try starts again. The start
// does not depend on the message, since others wait for the same one.
func (g *Guard) startLazily() error {
	if g.started.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(g.root, startBound)
	defer cancel()
	err := g.Start(ctx)
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return store.WithClass(store.ClassTransient, fmt.Errorf("%w: the guard could not start: %w", store.ErrUnavailable, err))
}

// board returns the start under way, a new one that the caller has to fly, or
// none when the guard has started.
func (g *Guard) board() (f *flight, mine bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut:
		return nil, false, ErrClosed
	case g.started.Load():
		return nil, false, nil
	case g.flight != nil:
		return g.flight, false, nil
	}
	g.flight = &flight{done: make(chan struct{})}
	return g.flight, true, nil
}

// fly starts the guard and tells those that wait, also when the store panics.
func (g *Guard) fly(ctx context.Context, f *flight) (err error) {
	f.err = errors.New("the start did not come to an end")
	defer func() { err = g.land(f) }()
	f.err = g.verify(ctx)
	return nil
}

func (g *Guard) land(f *flight) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case f.err != nil:
	case g.shut:
		f.err = ErrClosed
	default:
		g.startWorkers()
		g.started.Store(true)
	}
	g.flight = nil
	close(f.done)
	return f.err
}

// verify looks at the database, says what it found, and fails for what makes
// the promise impossible.
func (g *Guard) verify(ctx context.Context) error {
	if v, ok := g.store.(store.Verifier); ok {
		findings, err := v.Verify(ctx)
		if err != nil {
			return fmt.Errorf("once: verify the store: %w", err)
		}
		for _, f := range findings {
			g.observe(ctx, StoreWeak{f})
		}
	}
	g.checkPool(ctx)
	g.observe(ctx, Started{g.config.Service})
	return nil
}

// checkPool warns when handlers that need a second connection could wait for
// each other.
func (g *Guard) checkPool(ctx context.Context) {
	p, ok := g.store.(store.Pooled)
	if !ok {
		return
	}
	if n := p.MaxOpenConns(); n > 0 && n <= g.config.Limit {
		g.observe(ctx, PoolSmall{MaxOpen: n, Limit: g.config.Limit})
	}
}

// Ready reports whether a message could be handled now: nil, or why not. It
// starts the guard if nothing did yet, and asks the store. It is made for a
// readiness probe; give ctx a deadline.
func (g *Guard) Ready(ctx context.Context) error {
	if err := g.ifOpen(); err != nil {
		return err
	}
	if err := g.Start(ctx); err != nil {
		return err
	}
	if p, ok := g.store.(store.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (g *Guard) ifOpen() error {
	if isClosed(g.closing) {
		return ErrClosed
	}
	return nil
}

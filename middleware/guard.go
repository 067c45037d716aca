package once

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/store"
)

// Guard claims, runs, commits and decides. There is one per service; it serves
// all handlers of a router, and several routers. It is safe for concurrent use.
//
// Its life: [New], then [Guard.Plugin] or [Guard.Middleware], then
// [Guard.Close]. [Guard.Start] is called by the plugin, or by the first message
// without it.
type Guard struct {
	store      store.Store
	identity   any // of the store, comparable
	config     Config
	doSettings settings
	observer   Observer // nil: nobody listens
	limiter    limiter
	failures   *failures
	consumers  consumers
	inflight   inflight
	routes     routes
	publishes  atomic.Bool // there is a Publisher
	sent       sentOutputs
	handovers  handovers

	started atomic.Bool
	closing chan struct{}   // closed when Close begins
	closed  chan struct{}   // closed when it is done
	root    context.Context // of what the guard does by itself; ends with Close
	stop    context.CancelFunc

	mu       sync.Mutex
	shut     bool    // Close has begun
	flight   *flight // a start under way
	workers  []worker
	routers  map[*message.Router]struct{}
	closeErr error
}

// New returns a guard over a store. It sends no statement: [Guard.Start] does.
// The store, like the pool under it, stays the caller's; [Guard.Close] closes
// what the store itself opened, if it has a Close.
//
// The error is [ErrConfig] and names each field that cannot work, its value and
// a fix.
func New(s store.Store, c Config) (*Guard, error) {
	if isNil(s) {
		return nil, fmt.Errorf("%w: the store is nil: pass one, such as postgres.New(db)", ErrConfig)
	}
	c.Handlers = maps.Clone(c.Handlers)
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := c.validateHandlers(); err != nil {
		return nil, err
	}
	g := build(s, c)
	if err := g.checkClaims(); err != nil {
		g.stop()
		return nil, err
	}
	return g, nil
}

func build(s store.Store, c Config) *Guard {
	g := &Guard{
		store:    s,
		config:   c,
		observer: c.Observer,
		limiter:  make(limiter, c.Limit),
		failures: newFailures(c.FailingKeys),
		inflight: inflight{attempts: map[*attempt]struct{}{}},
		sent:     newSentOutputs(),
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
	}
	if _, nop := c.Observer.(NopObserver); nop {
		g.observer = nil
	}
	g.doSettings = settingsOf(c, HandlerConfig{})
	g.identity = g
	if reflect.ValueOf(s).Comparable() {
		g.identity = s
	}
	g.root, g.stop = context.WithCancel(context.Background())
	return g
}

// checkClaims asks the store about each kind of claim that is known already.
func (g *Guard) checkClaims() error {
	if err := g.checkClaim(g.doSettings.claim(&g.config, g.config.Service+"/handler")); err != nil {
		return err
	}
	for name, h := range g.config.Handlers {
		consumer, err := g.config.consumer(name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
		s := settingsOf(g.config, h)
		if err := g.checkClaim(s.claim(&g.config, consumer)); err != nil {
			return fmt.Errorf("settings of handler %q: %w", name, err)
		}
	}
	return nil
}

func isNil(s store.Store) bool {
	if s == nil {
		return true
	}
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

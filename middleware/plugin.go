package once

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Plugin puts the guard into a router:
//
//	router.AddPlugin(guard.Plugin)
//
// When the router runs, it appends [Guard.Middleware] behind all middlewares
// that were registered before, so that the guard is innermost; checks that each
// name in Config.Handlers is a handler's, and that each handler's name makes a
// consumer; decorates the publishers, so that outputs are noted as sent and
// closing the router waits for the attempts in flight; and calls [Guard.Start]
// for at most 15 s. An error keeps the router from running: Run returns it, and
// the channel of Running stays open for ever. Call [Guard.Start] before Run where
// that would leave something waiting.
//
// Handlers that are added while the router runs are guarded as well.
func (g *Guard) Plugin(r *message.Router) error {
	handlers := r.Handlers()
	if unknown := g.config.unknownHandlers(handlers); unknown != "" {
		return fmt.Errorf("%w: Handlers has settings for %s, but the router has no handler of that name: use the first argument of AddHandler, and add handlers before Run", ErrConfig, unknown)
	}
	for name := range handlers {
		if _, err := g.config.consumer(name); err != nil {
			return fmt.Errorf("%w: handler %q: %w", ErrConfig, name, err)
		}
	}
	if !g.plugIn(r) {
		return fmt.Errorf("%w: the guard is in this router already: add the plugin once", ErrConfig)
	}
	r.AddMiddleware(g.plugged)
	r.AddPublisherDecorators(g.decorate)

	ctx, cancel := context.WithTimeout(g.root, startBound)
	defer cancel()
	return g.Start(ctx)
}

// plugIn notes the router and reports whether it is new.
func (g *Guard) plugIn(r *message.Router) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.routers[r]; ok {
		return false
	}
	if g.routers == nil {
		g.routers = map[*message.Router]struct{}{}
	}
	g.routers[r] = struct{}{}
	return true
}

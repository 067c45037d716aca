package once

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// Observer receives the guard's events: the one hook for logs, metrics and
// traces.
//
// Observe is called synchronously, from many goroutines at once, so it must be
// safe for that and quick. ctx has the values of the message's context but may
// have ended. A panic is logged and does no harm to the attempt.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// NopObserver turns events off: the guard does not even make them.
type NopObserver struct{}

// Observe does nothing.
func (NopObserver) Observe(context.Context, Event) {}

// Observers passes each event to all of the given observers in turn, as in
//
//	once.Observers(once.SlogObserver(nil), metrics)
func Observers(observers ...Observer) Observer { return several(observers) }

type several []Observer

func (s several) Observe(ctx context.Context, e Event) {
	for _, o := range s {
		safely(ctx, o, e)
	}
}

// observed reports whether anybody listens, so that events which cost something
// are only made then.
func (g *Guard) observed() bool { return g.observer != nil }

// observe must not be called for an attempt unless observed, or the event is
// allocated for nobody.
func (g *Guard) observe(ctx context.Context, e Event) {
	if g.observer != nil {
		safely(ctx, g.observer, e)
	}
}

// safely keeps an observer's panic from turning a committed message into a
// failed one.
func safely(ctx context.Context, o Observer, e Event) {
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "an observer panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	o.Observe(ctx, e)
}

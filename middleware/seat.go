package once

import (
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/store"
)

// place is where one handler's chain has the guard. The router builds a chain
// before any message tells which handler it is for.
type place struct {
	guard   *Guard
	chain   *chain
	plugged bool // put there by the plugin, which decorates publishers too
	last    atomic.Pointer[seat]
}

// seat is all that is known about who receives at a place.
type seat struct {
	receiver
	consumer string
	settings settings
	chain    *chain

	plugged      bool   // the handler's publisher is decorated
	publishTopic string // empty: the handler has no publisher
}

// returns reports whether the router sends what the handler returns.
func (s *seat) returns() bool { return s.plugged && s.publishTopic != "" }

// seatFor finds who receives the message and gives the attempt its names and
// settings. The error is about the program, never about the message.
func (p *place) seatFor(a *attempt) error {
	r := receiver{message.HandlerNameFromCtx(a.parent), message.SubscribeTopicFromCtx(a.parent)}
	a.about.Handler, a.about.Topic = r.handler, r.topic
	s := p.last.Load()
	if s == nil || s.receiver != r {
		var err error
		if s, err = p.guard.newSeat(r, p.chain); err != nil {
			a.about.Consumer = s.consumer
			return err
		}
		s.plugged, s.publishTopic = p.plugged, message.PublishTopicFromCtx(a.parent)
		p.last.Store(s)
	}
	a.take(s)
	return s.chain.refusal()
}

func (a *attempt) take(s *seat) {
	a.about.Consumer = s.consumer
	a.settings = &s.settings
	a.claim = s.settings.claim(&a.guard.config, s.consumer)
	a.scope.seat = s
}

// newSeat names the consumer and refuses one that cannot work or that another
// receiver has. Beside an error the seat is good for its name only.
func (g *Guard) newSeat(r receiver, c *chain) (*seat, error) {
	s := &seat{receiver: r, settings: settingsOf(g.config, g.config.Handlers[r.handler]), chain: c}
	if r.handler == "" {
		return s, fmt.Errorf("%w: the message's context has no handler name: the middleware works in a Watermill router, whose handlers need a name; elsewhere use Guard.Do", ErrConfig)
	}
	var err error
	if s.consumer, err = g.config.consumer(r.handler); err != nil {
		return s, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := g.checkClaim(s.settings.claim(&g.config, s.consumer)); err != nil {
		return s, err
	}
	return s, g.consumers.take(s.consumer, r)
}

// checkClaim asks the store whether such claims can work.
func (g *Guard) checkClaim(c store.Claim) error {
	v, ok := g.store.(store.Validator)
	if !ok {
		return nil
	}
	if err := v.Validate(c); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

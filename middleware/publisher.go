package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Publisher returns pub for use inside handlers: what is published through it
// is stored in the claim's transaction and sent after the commit, before the
// message is acknowledged. It is for everything that publishes by itself:
// handlers without a publisher of their own, CQRS buses, request-reply.
//
//	bus, err := cqrs.NewEventBusWithConfig(guard.Publisher(pub), …)
//
// The attempt is found in the context of each published message, so pass the
// consumed message's context on: message.NewMessageWithContext(msg.Context(), …),
// or bus.Publish(msg.Context(), …). Inside a handler a message without it is
// [ErrOutputs]; so is one whose attempt has ended without a commit. Outside of
// any handler, and in [AfterCommit], the message is sent at once. Topic and messages are copied; nothing is sent for
// an attempt that is rolled back.
//
// When one of the messages cannot be sent after the commit, the consumed
// message is nacked ([Unsent]) and its redelivery, a duplicate, sends what is
// left. If none comes, or one message failed three times, the relay does. Every message is sent at least once and
// always with one UUID, metadata and payload.
//
// Close waits for the attempts in flight, at most Config.Drain, and closes pub.
// For a nil pub the result is nil. The publisher is safe for concurrent use, as
// pub has to be.
func (g *Guard) Publisher(pub message.Publisher) message.Publisher {
	if pub == nil {
		return nil
	}
	g.publishes.Store(true)
	return &publisher{guard: g, route: g.routes.add(pub)}
}

// publisher is what [Guard.Publisher] returns.
type publisher struct {
	guard *Guard
	route *route
}

func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	var s *scope
	for i, msg := range messages {
		if msg == nil {
			return fmt.Errorf("%w: message %d of %d for topic %q is nil", ErrOutputs, i+1, len(messages), topic)
		}
		own, err := p.guard.scopeFor(msg.Context())
		if err != nil {
			return err
		}
		if i > 0 && own != s {
			return fmt.Errorf("%w: the messages for topic %q come from different attempts: publish them one by one", ErrOutputs, topic)
		}
		s = own
	}
	if s == nil {
		return p.route.publish("", topic, messages...)
	}
	if topic == "" {
		return fmt.Errorf("%w: the topic is empty", ErrOutputs)
	}
	outputs := make([]*produced, len(messages))
	for i, msg := range messages {
		outputs[i] = newProduced(topic, msg)
		outputs[i].route, outputs[i].inside = p.route, true
	}
	return s.publish(outputs)
}

// Close closes the publisher behind the attempts that may still send with it.
func (p *publisher) Close() error { return p.guard.closeRoute(p.route) }

var (
	errStray = errors.New("a message without the attempt's context was published inside a handler, so it would be sent even if the handler failed: give it msg.Context(), as with message.NewMessageWithContext")
	errLate  = errors.New("the attempt has ended and is not committed: publish before the handler returns, not from a goroutine that it leaves behind")
)

// scopeFor finds this guard's attempt in the context of a message. Nil: there is
// none, and the message may be sent at once.
func (g *Guard) scopeFor(ctx context.Context) (*scope, error) {
	for s, _ := ctx.Value(originKey{}).(*scope); s != nil; s = s.outer {
		switch {
		case s.guard != g:
		case s.live():
			return s, nil
		case !s.isCommitted():
			return nil, fmt.Errorf("%w: %w", ErrOutputs, errLate)
		}
	}
	if insideHandler() {
		return nil, fmt.Errorf("%w: %w", ErrOutputs, errStray)
	}
	return nil, nil
}

// commit notes that the work is done: what it publishes from now on, as from
// AfterCommit, may be sent at once.
func (s *scope) commit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = true
}

func (s *scope) isCommitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed
}

// publish keeps outputs until the handler returns.
func (s *scope) publish(outputs []*produced) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx == nil {
		return fmt.Errorf("%w: %w", ErrOutputs, errLate)
	}
	s.published = append(s.published, outputs...)
	return nil
}

func (s *scope) takePublished() []*produced {
	s.mu.Lock()
	defer s.mu.Unlock()
	outputs := s.published
	s.published = nil
	return outputs
}

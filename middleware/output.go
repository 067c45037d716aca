package once

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/store"
)

// produced is an output of the handler that runs, with what the store does not
// keep of it.
type produced struct {
	store.Output
	ctx    context.Context // the message's own
	inside bool            // it is the attempt's or derived from it, so it ends too early
	route  *route          // where it was published; nil for a returned one
}

// collect lists the outputs of a handler that returned nil, in the order in
// which it produced them.
func (a *attempt) collect(returned []*message.Message) ([]store.Output, error) {
	a.produced = a.scope.takePublished()
	if len(returned) > 0 {
		if err := a.returnable(); err != nil {
			a.refused = true
			return nil, err
		}
	}
	for i, msg := range returned {
		if msg == nil {
			return nil, fmt.Errorf("%w: message %d of %d that the handler returned is nil", ErrOutputs, i+1, len(returned))
		}
		p := newProduced(a.scope.seat.publishTopic, msg)
		p.Returned = true
		p.inside = msg.Context().Value(scopeKey{}) == &a.scope
		a.produced = append(a.produced, p)
	}
	if len(a.produced) == 0 {
		return nil, nil
	}
	outputs := make([]store.Output, len(a.produced))
	for i, p := range a.produced {
		outputs[i] = p.Output
	}
	return outputs, nil
}

// newProduced copies a message, which is the caller's again afterwards: it may
// use its buffer for the next one.
func newProduced(topic string, msg *message.Message) *produced {
	return &produced{
		Output: store.Output{
			UUID:     msg.UUID,
			Topic:    topic,
			Metadata: maps.Clone(msg.Metadata),
			Payload:  bytes.Clone(msg.Payload),
		},
		ctx: msg.Context(),
	}
}

var (
	errNoPublisher = errors.New("its handler was added without a publisher: add it with AddHandler and a publish topic, or publish through guard.Publisher")
	errNoDecorator = errors.New("nobody would note that they were sent: add the guard with router.AddPlugin(guard.Plugin), which also decorates the publishers, instead of AddMiddleware")
)

// returnable says why the router would not send what the handler returned.
func (a *attempt) returnable() error {
	switch s := a.scope.seat; {
	case s.publishTopic == "":
		return fmt.Errorf("%w: %w", ErrOutputs, errNoPublisher)
	case !s.plugged:
		return fmt.Errorf("%w: %w", ErrOutputs, errNoDecorator)
	default:
		return nil
	}
}

// outgoing is the context of a message that is sent: the life of one context,
// and the values that the handler gave the message.
type outgoing struct {
	context.Context
	values context.Context
}

func (c outgoing) Value(key any) any {
	if key != (scopeKey{}) && key != (originKey{}) { // of an attempt that is over
		if v := c.values.Value(key); v != nil {
			return v
		}
	}
	return c.Context.Value(key)
}

// outlive gives an output's message a context that lasts as long as life.
func (p *produced) outlive(life context.Context) context.Context {
	if !p.inside {
		return p.ctx
	}
	return outgoing{Context: life, values: p.ctx}
}

type outputKey struct{}

// outputRef names the stored output that a message is.
type outputRef struct {
	guard *Guard
	id    store.OutputID
}

// messageOf makes the message that an output is. Metadata is copied, because a
// publisher may change it.
func messageOf(ctx context.Context, o store.Output) *message.Message {
	msg := message.NewMessage(o.UUID, o.Payload)
	maps.Copy(msg.Metadata, o.Metadata)
	msg.SetContext(ctx)
	return msg
}

package once

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// decorate is a message.PublisherDecorator. A handler without a publisher keeps
// none: the router tells by nil.
func (g *Guard) decorate(pub message.Publisher) (message.Publisher, error) {
	if pub == nil {
		return nil, nil
	}
	if isDisabled(pub) {
		return &decorated{guard: g, route: &route{pub: pub, routes: &g.routes}}, nil
	}
	return &decorated{guard: g, route: g.routes.add(pub)}, nil
}

// isDisabled reports whether pub is what the router gives a consumer handler.
// It sends nothing, so it must not be taken for the only publisher there is.
func isDisabled(pub message.Publisher) bool {
	return fmt.Sprintf("%T", pub) == "message.disabledPublisher"
}

// decorated is a handler's publisher in a router. It notes which outputs were
// sent, and delays Close: a router that is closed closes its publishers while
// handlers still run.
type decorated struct {
	guard *Guard
	route *route
}

// Publish sends stored outputs one by one, since an error of a batch would not
// tell which went out, and everything else as it came.
func (d *decorated) Publish(topic string, messages ...*message.Message) error {
	for len(messages) > 0 {
		if ref := d.refOf(messages[0]); ref != nil {
			if err := d.send(topic, messages[0], ref); err != nil {
				return err
			}
			messages = messages[1:]
			continue
		}
		n := 1
		for n < len(messages) && d.refOf(messages[n]) == nil {
			n++
		}
		if err := d.route.publish(d.guard.consumerOf(messages[0].Context()), topic, messages[:n]...); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

// Close closes the publisher behind the attempts that may still send with it.
func (d *decorated) Close() error { return d.guard.closeRoute(d.route) }

// refOf tells which output of this guard a message is.
func (d *decorated) refOf(msg *message.Message) *outputRef {
	if msg == nil {
		return nil
	}
	ref, _ := msg.Context().Value(outputKey{}).(*outputRef)
	if ref == nil || ref.guard != d.guard {
		return nil
	}
	return ref
}

// send sends a copy, whose context does not say any more that it is an output:
// a subscriber in the same process may get it.
func (d *decorated) send(topic string, msg *message.Message, ref *outputRef) error {
	sent := msg.Copy()
	sent.SetContext(context.WithValue(msg.Context(), outputKey{}, (*outputRef)(nil)))
	consumer := d.guard.consumerOf(msg.Context())
	err := d.route.publish(consumer, topic, sent)
	if err != nil {
		d.guard.outputFailed(msg.Context(), OutputFailed{
			Consumer: consumer, Topic: topic, UUID: msg.UUID, ID: ref.id, Err: err,
		})
		d.guard.handovers.failed(ref.id)
		return err
	}
	d.guard.sent.add(ref.id)
	d.guard.handovers.sent(ref.id)
	return nil
}

// consumerOf names whose output the router is about to send.
func (g *Guard) consumerOf(ctx context.Context) string {
	consumer, err := g.config.consumer(message.HandlerNameFromCtx(ctx))
	if err != nil {
		return ""
	}
	return consumer
}

package once

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/store"
)

// send sends the outputs that are not sent yet, in the order in which the
// handler produced them: published ones now, returned ones by giving them to the
// router. It stops at the first that fails, so that none overtakes it, unless
// that one is the relay's by now.
func (a *attempt) send() error {
	for i, o := range a.result.Unsent {
		if a.result.Duplicate && (a.guard.sent.has(o.ID) || a.guard.handovers.has(o.ID)) {
			continue // sent by this process, which has not come to mark it; or the relay's
		}
		a.outputs++
		p := a.producedAt(i, o)
		if o.Returned && a.answers(o) {
			a.answer = append(a.answer, a.answerOf(p))
			continue
		}
		if err := a.sendNow(p); err != nil && !a.guard.handovers.failed(o.ID) {
			a.answer = nil
			return fmt.Errorf("%w: output %d of %d, to topic %q: %w", ErrUnsent, i+1, len(a.result.Unsent), o.Topic, err)
		}
	}
	return nil
}

// producedAt is the i-th unsent output, with its message's context if it was
// produced just now.
func (a *attempt) producedAt(i int, o store.Output) *produced {
	if a.result.Duplicate || i >= len(a.produced) {
		return &produced{Output: o, ctx: a.parent}
	}
	p := a.produced[i]
	p.ID = o.ID
	return p
}

// answers reports whether the router sends a returned output where it belongs.
// The handler may have had another topic when it produced it.
func (a *attempt) answers(o store.Output) bool {
	s := a.scope.seat
	return s != nil && s.returns() && s.publishTopic == o.Topic
}

func (a *attempt) answerOf(p *produced) *message.Message {
	ctx := context.WithValue(p.outlive(a.parent), outputKey{}, &outputRef{guard: a.guard, id: p.ID})
	return messageOf(ctx, p.Output)
}

func (a *attempt) sendNow(p *produced) error {
	route := p.route
	if route == nil {
		var err error
		if route, err = a.guard.routes.find(lane{a.about.Consumer, p.Topic}); err != nil {
			return err
		}
	}
	err := route.publish(a.about.Consumer, p.Topic, messageOf(p.outlive(a.context()), p.Output))
	if err != nil {
		a.guard.outputFailed(a.parent, OutputFailed{
			Consumer: a.about.Consumer, Topic: p.Topic, UUID: p.UUID, ID: p.ID, Attempts: p.Attempts, Err: err,
		})
		return err
	}
	a.guard.sent.add(p.ID)
	a.guard.handovers.sent(p.ID)
	return nil
}

func (g *Guard) outputFailed(ctx context.Context, e OutputFailed) {
	if g.observed() {
		g.observe(ctx, e)
	}
}

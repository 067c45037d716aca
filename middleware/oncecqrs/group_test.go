package oncecqrs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	once "github.com/watermill-once/watermill-once/middleware"
)

// A group is one consumer: its handlers share the claim and the transaction.
func TestGroup_TwoHandlersCommitTogether(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		bus := s.commandBus()
		fail := first(errBusiness)
		runs := 0
		s.group("projections", nil,
			cqrs.NewGroupEventHandler(func(ctx context.Context, e *orderPlaced) error {
				runs++
				return errors.Join(write(ctx, "a "+e.ID), bus.Send(ctx, sendMail(*e)))
			}),
			cqrs.NewGroupEventHandler(func(ctx context.Context, e *sendMail) error { return write(ctx, "not for orders "+e.ID) }),
			cqrs.NewGroupEventHandler(func(ctx context.Context, e *orderPlaced) error {
				return errors.Join(write(ctx, "b "+e.ID), fail())
			}))
		s.run()
		s.deliverTo("events", "e1", orderPlaced{"1"})
		s.deliverTo("events", "e1", orderPlaced{"1"})
		s.wantOutcomes("projections", once.Failed, once.Processed, once.Duplicate)
		s.wantEffects("a 1", "b 1") // what the first wrote before the second failed is undone
		s.wantSent("sendMail")
		s.wantClaims(1)
		if runs != 2 {
			t.Errorf("the first handler ran %d times", runs)
		}
	})
}

func TestW03_AGroupsEventThatFailedIsSentByTheDuplicate(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		bus := s.commandBus()
		send := func(ctx context.Context, e *orderPlaced) error { return bus.Send(ctx, sendMail(*e)) }
		s.out.failNext(1)
		s.group("projections", nil, cqrs.NewGroupEventHandler(send), cqrs.NewGroupEventHandler(send))
		s.run()
		s.deliverTo("events", "e1", orderPlaced{"1"})
		s.wantOutcomes("projections", once.Unsent, once.Duplicate)
		tried, _ := s.out.messages()
		if sent := s.wantSent("sendMail", "sendMail"); len(tried) != 3 || sent[0].UUID != tried[0].UUID || sent[0].UUID == sent[1].UUID {
			t.Errorf("tried %d", len(tried))
		}
	})
}

// What docs/guarantees.md warns of: the handlers of a group share their fate,
// and ErrSkip is that of the whole message.
func TestGroup_ErrSkipOfOneDropsTheOthersWork(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.group("projections", nil,
			cqrs.NewGroupEventHandler(func(ctx context.Context, e *orderPlaced) error { return write(ctx, "a "+e.ID) }),
			cqrs.NewGroupEventHandler(func(context.Context, *orderPlaced) error { return once.ErrSkip }))
		s.run()
		s.deliverTo("events", "e1", orderPlaced{"1"})
		s.wantOutcomes("projections", once.Skipped)
		s.wantEffects()
		s.wantClaims(0)
	})
}

package oncecqrs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
	"github.com/watermill-once/watermill-once/store"
)

// halfDone writes and publishes before it fails with err.
func halfDone(bus *cqrs.EventBus, err func() error) cqrs.CommandHandler {
	return cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
		return errors.Join(write(ctx, cmd.ID), bus.Publish(ctx, orderPlaced{cmd.ID}), err())
	})
}

func always(err error) func() error { return func() error { return err } }

// first fails once.
func first(err error) func() error {
	n := 0
	return func() error {
		if n++; n == 1 {
			return err
		}
		return nil
	}
}

func ackErrors(on cqrs.CommandProcessorOnHandleFn) func(*cqrs.CommandProcessorConfig) {
	return func(c *cqrs.CommandProcessorConfig) { c.AckCommandHandlingErrors, c.OnHandle = true, on }
}

func TestCommand_RunsOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.commands(nil, halfDone(s.eventBus(), first(errBusiness)))
		s.run()
		s.deliver("c1", placeOrder{"1"})
		s.deliver("c1", placeOrder{"1"})
		s.wantOutcomes("place", once.Failed, once.Processed, once.Duplicate)
		s.wantEffects("1")
		s.wantSent("orderPlaced")
	})
}

func TestW09_AnErrorThatIsAckedRollsBack(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		s.commands(ackErrors(oncecqrs.OnCommand(nil)), halfDone(s.eventBus(), always(errBusiness)))
		s.run()
		s.deliver("c1", placeOrder{"1"}) // returns, so it is acked
		s.wantOutcomes("place", once.Dropped)
		s.wantEffects()
		s.wantClaims(0)
		s.wantSent()
		if e := s.seen.attempts("place")[0]; !errors.Is(e.Err, errBusiness) {
			t.Errorf("the event says %v", e.Err)
		}
		s.deliver("c1", placeOrder{"1"}) // there is no claim, so it runs again
		s.wantOutcomes("place", once.Dropped, once.Dropped)
	})
}

// What docs/guarantees.md warns of: the option without the wrapper.
func TestW09_WithoutTheWrapperHalfOfTheWorkCommits(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.commands(ackErrors(nil), halfDone(s.eventBus(), always(errBusiness)))
		s.run()
		s.deliver("c1", placeOrder{"1"})
		s.deliver("c1", placeOrder{"1"})
		s.wantOutcomes("place", once.Processed, once.Duplicate) // nobody is told of the failure
		s.wantEffects("1")
		s.wantClaims(1)
		s.wantSent("orderPlaced")
	})
}

// A deadlock is no reason to give up on a command.
func TestW09_ATransientErrorIsNacked(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.commands(ackErrors(oncecqrs.OnCommand(nil)), halfDone(s.eventBus(), first(store.WithClass(store.ClassTransient, errBusiness))))
		s.run()
		s.deliver("c1", placeOrder{"1"})
		s.wantOutcomes("place", once.RolledBack, once.Processed)
		s.wantEffects("1")
		s.wantSent("orderPlaced")
	})
}

// The processor's own OnHandle decides what an error is.
func TestOnCommand_CallsNext(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		on := func(p cqrs.CommandProcessorOnHandleParams) error {
			ctx := p.Message.Context()
			p.Message.SetContext(context.Background()) // as a careless one may
			err := p.Handler.Handle(ctx, p.Command)
			if p.CommandName != "placeOrder" || !errors.Is(err, errBusiness) {
				t.Errorf("next got %+v, %v", p, err)
			}
			if p.Command.(*placeOrder).ID == "hidden" {
				return nil
			}
			return err
		}
		s.commands(ackErrors(oncecqrs.OnCommand(on)), halfDone(s.eventBus(), always(errBusiness)))
		s.run()
		s.deliver("c1", placeOrder{"reported"})
		s.deliver("c2", placeOrder{"hidden"})
		s.wantOutcomes("place", once.Dropped, once.Processed)
		s.wantEffects("hidden")
	})
}

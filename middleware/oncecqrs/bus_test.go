package oncecqrs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	once "github.com/watermill-once/watermill-once/middleware"
)

func mailer() cqrs.CommandHandler {
	return cqrs.NewCommandHandler("mail", func(ctx context.Context, cmd *sendMail) error { return write(ctx, "mail "+cmd.ID) })
}

// The bus makes a new UUID each time that the handler runs, so only a stored
// message can be sent again as the same one.
func TestW03_AnEventThatFailedIsSentByTheDuplicate(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		s.out.failNext(1)
		s.commands(nil, halfDone(s.eventBus(), always(nil)))
		s.events(nil, cqrs.NewEventHandler("read-model", func(ctx context.Context, e *orderPlaced) error { return write(ctx, "seen "+e.ID) }))
		s.run()
		s.deliver("c1", placeOrder{"1"}) // and once more, since it was nacked
		s.wantOutcomes("place", once.Unsent, once.Duplicate)
		s.wantOutcomes("read-model", once.Processed)
		s.wantEffects("1", "seen 1")
		tried, sent := s.out.messages()
		if len(tried) != 2 || len(sent) != 1 || tried[0].UUID != tried[1].UUID {
			t.Errorf("tried %d, sent %d", len(tried), len(sent))
		}
		s.deliver("c1", placeOrder{"1"}) // sent is sent
		s.wantSent("orderPlaced")
	})
}

func TestBus_AHandlerThatFailsSendsNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		var uuids []string
		bus := s.eventBus()
		fail := first(errBusiness)
		s.commands(nil, cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
			uuids = append(uuids, cqrs.OriginalMessageFromCtx(ctx).UUID)
			return errors.Join(bus.Publish(ctx, orderPlaced{cmd.ID}), fail())
		}))
		s.run()
		s.deliver("c1", placeOrder{"1"})
		s.wantOutcomes("place", once.Failed, once.Processed)
		s.wantSent("orderPlaced")
		if tried, _ := s.out.messages(); len(tried) != 1 || len(uuids) != 2 {
			t.Errorf("%d were tried in %d runs", len(tried), len(uuids))
		}
	})
}

// A whole chain: each step commits before the next begins, and a duplicate at
// its head moves nothing.
func TestBus_CommandEventCommand(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		commands := s.commandBus()
		s.commands(nil, halfDone(s.eventBus(), always(nil)), mailer())
		s.events(nil, cqrs.NewEventHandler("policy", func(ctx context.Context, e *orderPlaced) error {
			return commands.Send(ctx, sendMail(*e))
		}))
		s.run()
		for range 3 {
			s.deliver("c1", placeOrder{"1"})
		}
		s.wantEffects("1", "mail 1")
		s.wantSent("sendMail", "orderPlaced") // inner ones are through before
		s.wantOutcomes("policy", once.Processed)
		s.wantOutcomes("mail", once.Processed)
	})
}

func TestBus_AnotherContextIsRefused(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		bus := s.eventBus()
		s.commands(nil, cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
			if err := bus.Publish(context.Background(), orderPlaced{cmd.ID}); !errors.Is(err, once.ErrOutputs) {
				t.Errorf("got %v", err)
			}
			return write(ctx, cmd.ID)
		}))
		s.run()
		s.deliver("c1", placeOrder{"1"})
		s.wantSent()
	})
}

// Outside of a handler the same bus sends at once.
func TestBus_OutsideOfAHandler(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		s.commands(nil, mailer())
		bus := s.commandBus()
		s.run()
		if err := bus.Send(t.Context(), sendMail{"1"}); err != nil {
			t.Error(err)
		}
		s.wantSent("sendMail")
		s.wantEffects("mail 1")
	})
}

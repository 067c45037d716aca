package oncecqrs_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
)

// What becomes of a message whose type the processor does not know.
func TestW10_UnknownTypes(t *testing.T) {
	t.Parallel()
	command := func(s *service) {
		s.commands(func(c *cqrs.CommandProcessorConfig) {
			c.GenerateSubscribeTopic = func(cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) { return "events", nil }
		}, cqrs.NewCommandHandler("h", func(ctx context.Context, cmd *placeOrder) error { return write(ctx, cmd.ID) }))
	}
	event := func(ack bool) func(s *service) {
		return func(s *service) {
			s.events(func(c *cqrs.EventProcessorConfig) {
				c.AckOnUnknownEvent = ack
				c.GenerateSubscribeTopic = func(cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return "events", nil }
			}, cqrs.NewEventHandler("h", func(ctx context.Context, e *placeOrder) error { return write(ctx, e.ID) }))
		}
	}
	group := func(ack bool) func(s *service) {
		return func(s *service) {
			s.group("h", func(c *cqrs.EventGroupProcessorConfig) { c.AckOnUnknownEvent = ack },
				cqrs.NewGroupEventHandler(func(ctx context.Context, e *placeOrder) error { return write(ctx, e.ID) }))
		}
	}
	for name, c := range map[string]struct {
		add     func(*service)
		handles bool
		outcome once.Outcome
		claims  int
	}{
		"a command":                              {command, false, once.Processed, 1},
		"an event that is acked":                 {event(true), false, once.Processed, 1},
		"an event that is not acked":             {event(false), false, once.Failed, 0},
		"a group's event that is acked":          {group(true), false, once.Processed, 1},
		"a group's event that is not acked":      {group(false), false, once.Failed, 0},
		"a command behind Handles":               {command, true, once.Skipped, 0},
		"an event behind Handles":                {event(true), true, once.Skipped, 0},
		"an event that would fail":               {event(false), true, once.Skipped, 0},
		"a group's event behind Handles":         {group(true), true, once.Skipped, 0},
		"a group's event that would have failed": {group(false), true, once.Skipped, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := once.Config{}
			if c.handles {
				config.When = oncecqrs.Handles(marshaler(), placeOrder{})
			}
			s := newService(t, openSQLite(t), config)
			c.add(s)
			s.router.AddMiddleware(hideErrors) // outside, so that what fails comes once
			s.run()
			s.deliverTo("events", "m1", orderPlaced{"1"})
			s.wantOutcomes("h", c.outcome)
			s.wantClaims(c.claims)
			s.wantEffects()
		})
	}
}

// Why Handles matters: the claim of a message that nobody handled stays.
func TestW10_AClaimOfAnIgnoredTypeHidesItFromALaterHandler(t *testing.T) {
	t.Parallel()
	for name, handles := range map[string]bool{"without": false, "with": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := once.Config{}
			types := []any{placeOrder{}}
			if handles {
				config.When = oncecqrs.Handles(marshaler(), types...)
			}
			claims := openSQLite(t)
			ack := func(c *cqrs.EventGroupProcessorConfig) { c.AckOnUnknownEvent = true }
			old := newService(t, claims, config)
			old.group("projections", ack, cqrs.NewGroupEventHandler(func(context.Context, *placeOrder) error { return nil }))
			old.run()
			old.deliverTo("events", "e1", orderPlaced{"1"})

			if handles {
				config.When = oncecqrs.Handles(marshaler(), append(types, orderPlaced{})...)
			}
			later := newService(t, claims, config)
			later.group("projections", ack,
				cqrs.NewGroupEventHandler(func(context.Context, *placeOrder) error { return nil }),
				cqrs.NewGroupEventHandler(func(ctx context.Context, e *orderPlaced) error { return write(ctx, e.ID) }))
			later.run()
			later.deliverTo("events", "e1", orderPlaced{"1"}) // the topic is read again
			if handles {
				later.wantOutcomes("projections", once.Processed)
				later.wantEffects("1")
				return
			}
			later.wantOutcomes("projections", once.Duplicate)
			later.wantEffects()
		})
	}
}

package oncecqrs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
)

// Each handler of an event is a consumer of its own, by its HandlerName.
func TestEvent_TwoHandlersOfOneEvent(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		fail := first(errBusiness)
		s.events(nil,
			cqrs.NewEventHandler("stock", func(ctx context.Context, e *orderPlaced) error {
				return errors.Join(write(ctx, "stock "+e.ID), fail())
			}),
			cqrs.NewEventHandler("statistics", func(ctx context.Context, e *orderPlaced) error { return write(ctx, "statistics "+e.ID) }))
		s.run()
		s.deliver("e1", orderPlaced{"1"})
		s.deliver("e1", orderPlaced{"1"})
		s.wantOutcomes("stock", once.Failed, once.Processed, once.Duplicate)
		s.wantOutcomes("statistics", once.Processed, once.Duplicate)
		s.wantEffects("statistics 1", "stock 1")
		s.wantClaims(2)
		for _, handler := range []string{"stock", "statistics"} {
			if c, found, err := s.guard.Lookup(t.Context(), handler, "e1"); err != nil || !found || c.Consumer != "shop/"+handler {
				t.Errorf("%s: %+v, %v, %v", handler, c, found, err)
			}
		}
	})
}

// Watermill itself refuses two handlers of one name, so that no two share
// claims.
func TestEvent_TwoHandlersOfOneName(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		defer func() {
			if _, ok := recover().(message.DuplicateHandlerNameError); !ok {
				t.Error("not refused")
			}
		}()
		handle := func(context.Context, *orderPlaced) error { return nil }
		s.events(nil, cqrs.NewEventHandler("stock", handle), cqrs.NewEventHandler("stock", handle))
	})
}

// hideErrors is a middleware that takes errors away.
func hideErrors(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		out, _ := h(msg)
		return out, nil
	}
}

// hideInside puts the guard in by hand, with a middleware inside.
func (s *service) hideInside() {
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		s.Fatal(err)
	}
	router.AddMiddleware(s.guard.Middleware, hideErrors)
	s.router = router
}

func TestOnEvent_AnErrorThatIsHiddenRollsBack(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.hideInside()
		handle := func(ctx context.Context, e *orderPlaced) error { return errors.Join(write(ctx, e.ID), errBusiness) }
		own := 0
		s.events(func(c *cqrs.EventProcessorConfig) { c.OnHandle = oncecqrs.OnEvent(nil) }, cqrs.NewEventHandler("stock", handle))
		s.group("group", func(c *cqrs.EventGroupProcessorConfig) { c.OnHandle = oncecqrs.OnGroupEvent(nil) }, cqrs.NewGroupEventHandler(handle))
		s.group("own", func(c *cqrs.EventGroupProcessorConfig) {
			c.OnHandle = oncecqrs.OnGroupEvent(func(cqrs.EventGroupProcessorOnHandleParams) error { own++; return errBusiness })
		}, cqrs.NewGroupEventHandler(handle))
		s.run()
		s.deliver("e1", orderPlaced{"1"})
		s.deliverTo("events", "e1", orderPlaced{"1"})
		for _, handler := range []string{"stock", "group", "own"} {
			s.wantOutcomes(handler, once.Dropped)
		}
		s.wantEffects()
		s.wantClaims(0)
		if own != 1 {
			s.Errorf("the group's own OnHandle was called %d times", own)
		}
	})
}

func TestOnEvent_CallsNext(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		called := 0
		next := func(p cqrs.EventProcessorOnHandleParams) error {
			called++
			return p.Handler.Handle(p.Message.Context(), p.Event)
		}
		s.events(func(c *cqrs.EventProcessorConfig) { c.OnHandle = oncecqrs.OnEvent(next) },
			cqrs.NewEventHandler("stock", func(ctx context.Context, e *orderPlaced) error { return write(ctx, e.ID) }))
		s.run()
		s.deliver("e1", orderPlaced{"1"})
		s.deliver("e1", orderPlaced{"1"})
		s.wantEffects("1")
		if called != 1 {
			s.Errorf("called %d times", called)
		}
	})
}

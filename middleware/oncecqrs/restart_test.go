package oncecqrs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"

	once "github.com/watermill-once/watermill-once/middleware"
)

// A topic for each operation was never seen by a process that starts anew, so
// with several publishers it has to be told.
func TestReply_AfterARestartWithATopicForEachOperation(t *testing.T) {
	t.Parallel()
	claims := openSQLite(t)
	start := func() *service {
		s := newService(t, claims, once.Config{})
		s.answers(s.backend(func(c *requestreply.PubSubBackendConfig) {
			c.GeneratePublishTopic = func(p requestreply.PubSubBackendPublishParams) (string, error) {
				return "replies-" + string(p.OperationID), nil
			}
		}), pay(always(nil)))
		s.guard.Publisher(&outlet{}) // another one
		s.router.AddMiddleware(hideErrors)
		s.run()
		return s
	}
	before := start()
	before.out.failNext(1)
	before.request("c1", "op1", "1")
	before.wantOutcomes("pay", once.Unsent)

	after := start()
	after.request("c1", "op1", "1")
	if e := after.seen.attempts("pay")[0]; !errors.Is(e.Err, once.ErrNoPublisher) {
		t.Errorf("got %v", e.Err)
	}
	if err := after.guard.Relay(after.out); err != nil {
		t.Fatal(err)
	}
	after.request("c1", "op1", "1")
	after.wantOutcomes("pay", once.Unsent, once.Duplicate)
	after.wantReplies([2]string{"op1", ""})
	after.wantEffects("1")
}

// Many at once, each twice, with handlers and a broker that fail now and then.
func TestBus_ManyAtOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		var runs atomic.Int32
		bus := s.eventBus()
		s.commands(nil, cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
			err := errors.Join(write(ctx, cmd.ID), bus.Publish(ctx, orderPlaced(*cmd)))
			switch runs.Add(1) % 5 {
			case 0:
				return errors.Join(err, errBusiness)
			case 1:
				s.out.failNext(1)
			}
			return err
		}))
		seen := func(name string) cqrs.EventHandler {
			return cqrs.NewEventHandler(name, func(ctx context.Context, e *orderPlaced) error { return write(ctx, name+e.ID) })
		}
		s.events(nil, seen("a"), seen("b"))
		s.run()
		var senders sync.WaitGroup
		var want []string
		for sender := range 4 {
			for i := range 5 {
				id := fmt.Sprintf("%d%d", sender, i)
				want = append(want, id)
			}
			senders.Go(func() {
				for i := range 5 {
					id := fmt.Sprintf("%d%d", sender, i)
					s.deliver("c"+id, placeOrder{id})
					s.deliver("c"+id, placeOrder{id})
				}
			})
		}
		senders.Wait()
		for _, prefix := range []string{"a", "b"} {
			for _, id := range want[:20] {
				want = append(want, prefix+id)
			}
		}
		s.wantEffects(want...)
	})
}

// A command that is sent again is a duplicate if its sender says which it is.
func TestCommand_ASenderGivesItAnIdentity(t *testing.T) {
	t.Parallel()
	s := newService(t, openSQLite(t), once.Config{})
	s.commands(nil, mailer())
	bus, err := cqrs.NewCommandBusWithConfig(s.broker, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return p.CommandName, nil },
		Marshaler:            marshaler(),
		OnSend: func(p cqrs.CommandBusOnSendParams) error {
			p.Message.UUID = p.Command.(sendMail).ID
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.run()
	for range 2 {
		if err := bus.Send(t.Context(), sendMail{"1"}); err != nil {
			t.Error(err)
		}
	}
	s.wantOutcomes("mail", once.Processed, once.Duplicate)
}

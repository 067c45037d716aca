package oncecqrs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
	"github.com/watermill-once/watermill-once/store/storetest"
)

type receipt struct{ Number string }

// backend sends replies through the guard to the topic "replies".
func (s *service) backend(change func(*requestreply.PubSubBackendConfig)) *requestreply.PubSubBackend[receipt] {
	s.Helper()
	timeout := storetest.Patience
	config := requestreply.PubSubBackendConfig{
		Publisher: s.guard.Publisher(s.out),
		SubscriberConstructor: func(requestreply.PubSubBackendSubscribeParams) (message.Subscriber, error) {
			return s.replies, nil
		},
		GeneratePublishTopic:   func(requestreply.PubSubBackendPublishParams) (string, error) { return "replies", nil },
		GenerateSubscribeTopic: func(requestreply.PubSubBackendSubscribeParams) (string, error) { return "replies", nil },
		ListenForReplyTimeout:  &timeout,
	}
	if change != nil {
		change(&config)
	}
	b, err := requestreply.NewPubSubBackend(config, requestreply.BackendPubsubJSONMarshaler[receipt]{})
	if err != nil {
		s.Fatal(err)
	}
	return b
}

func ackErrorReplies(c *requestreply.PubSubBackendConfig) { c.AckCommandErrors = true }

// pay writes before it fails with err.
func pay(err func() error) func(context.Context, *placeOrder) (receipt, error) {
	return func(ctx context.Context, cmd *placeOrder) (receipt, error) {
		return receipt{"receipt of " + cmd.ID}, errors.Join(write(ctx, cmd.ID), err())
	}
}

// answers adds a command handler that replies.
func (s *service) answers(b *requestreply.PubSubBackend[receipt], handle func(context.Context, *placeOrder) (receipt, error)) {
	s.Helper()
	s.commands(nil, requestreply.NewCommandHandlerWithResult[placeOrder, receipt]("pay", b, handle))
}

// answersOnce adds one that answers failures.
func (s *service) answersOnce(handle func(context.Context, *placeOrder) (receipt, error)) {
	s.Helper()
	s.commands(nil, oncecqrs.NewCommandHandlerWithResult[placeOrder, receipt]("pay", s.backend(ackErrorReplies), handle))
}

// request has the broker bring a command that asks for a reply, and returns
// when it is acked.
func (s *service) request(uuid, operation, id string) {
	s.Helper()
	msg, err := marshaler().Marshal(placeOrder{id})
	if err != nil {
		s.Fatal(err)
	}
	msg.UUID = uuid
	msg.Metadata.Set(requestreply.OperationIDMetadataKey, operation)
	if err := s.broker.Publish("placeOrder", msg); err != nil {
		s.Fatal(err)
	}
}

// wantReplies checks for which operations replies were sent, with which error.
func (s *service) wantReplies(want ...[2]string) {
	s.Helper()
	_, sent := s.out.messages()
	var got [][2]string
	for _, msg := range sent {
		got = append(got, [2]string{msg.Metadata.Get(requestreply.OperationIDMetadataKey), msg.Metadata.Get(requestreply.ErrorMetadataKey)})
	}
	if len(got) != len(want) {
		s.Errorf("replies %q, want %q", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			s.Errorf("replies %q, want %q", got, want)
		}
	}
}

// requester sends commands, outside of any handler.
func (s *service) requester() *cqrs.CommandBus {
	s.Helper()
	bus, err := cqrs.NewCommandBusWithConfig(s.broker, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return p.CommandName, nil },
		Marshaler:            marshaler(),
	})
	if err != nil {
		s.Fatal(err)
	}
	return bus
}

func TestReply_ReachesWhoAsked(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		b := s.backend(nil)
		s.answers(b, pay(always(nil)))
		s.run()
		reply, err := requestreply.SendWithReply[receipt](t.Context(), s.requester(), b, placeOrder{"1"})
		if err != nil || reply.Error != nil || reply.HandlerResult.Number != "receipt of 1" {
			t.Errorf("got %+v, %v", reply, err)
		}
		s.wantEffects("1")
	})
}

// A handler that waits for a reply waits in vain: what it sends through the
// guard leaves after it has returned.
func TestReply_IsNotWaitedForInsideAHandler(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		moment := time.Millisecond
		b := s.backend(func(c *requestreply.PubSubBackendConfig) { c.ListenForReplyTimeout = &moment })
		s.answers(b, pay(always(nil)))
		bus := s.commandBus()
		s.events(nil, cqrs.NewEventHandler("asks", func(ctx context.Context, e *orderPlaced) error {
			reply, err := requestreply.SendWithReply[receipt](ctx, bus, b, placeOrder(*e))
			var timeout requestreply.ReplyTimeoutError
			if err != nil || !errors.As(reply.Error, &timeout) {
				t.Errorf("got %+v, %v", reply, err)
			}
			return nil
		}))
		s.run()
		s.deliver("e1", orderPlaced{"1"})
		s.wantEffects("1") // later
	})
}

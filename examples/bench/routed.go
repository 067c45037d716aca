package main

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

// routed returns a context as a router gives to a handler's messages: with the
// names that the guard needs. The router is real and gone afterwards.
func routed(ctx context.Context) (context.Context, error) {
	logger := watermill.NewSlogLogger(slog.New(slog.DiscardHandler))
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return nil, err
	}
	broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, logger)
	seen := make(chan context.Context, 1)
	router.AddConsumerHandler("handler", "topic", broker, func(msg *message.Message) error {
		seen <- context.WithoutCancel(msg.Context())
		return nil
	})
	if err := broker.Publish("topic", message.NewMessage(watermill.NewUUID(), nil)); err != nil {
		return nil, err
	}
	ran := make(chan error, 1)
	go func() { ran <- router.Run(ctx) }()
	values := <-seen
	if err := router.Close(); err != nil {
		return nil, err
	}
	return values, <-ran
}

// withValues is a context with the values of another one.
type withValues struct {
	context.Context
	values context.Context //nolint:containedctx // that is what it is for
}

func (c withValues) Value(key any) any { return c.values.Value(key) }

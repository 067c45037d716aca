package forwarder

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// Placed is the topic of the messages that tell of an order.
const Placed = "orders-placed"

// Publish is how a handler publishes, one of the two ways: [Forward] or
// [Store].
type Publish func(ctx context.Context, topic string, msgs ...*message.Message) error

// Handler takes orders: it writes each and publishes a message about it. Both
// happen or none.
func Handler(publish Publish) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error { return order(msg.Context(), string(msg.Payload), publish) }
}

func order(ctx context.Context, id string, publish Publish) error {
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, tx.Rebind(`INSERT INTO orders (id) VALUES (?)`), id); err != nil {
		return fmt.Errorf("write the order %q: %w", id, err)
	}
	return publish(ctx, Placed, message.NewMessageWithContext(ctx, watermill.NewUUID(), []byte(id)))
}

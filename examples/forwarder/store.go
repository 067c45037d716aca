package forwarder

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// Store publishes with the guard: the messages are stored in the claim's
// transaction, sent by the attempt right after its commit, and by a duplicate or
// the guard's relay where that failed. There is nothing else to run.
func Store(guard *once.Guard, out message.Publisher) Publish {
	pub := guard.Publisher(out)
	return func(_ context.Context, topic string, msgs ...*message.Message) error {
		return pub.Publish(topic, msgs...)
	}
}

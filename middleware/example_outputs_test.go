package once_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// What is published through the guard is sent once the work is committed, and
// not at all when it is rolled back.
func ExampleGuard_Publisher() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)
	broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	defer broker.Close()
	receipts, _ := broker.Subscribe(ctx, "receipts")
	publisher := guard.Publisher(broker)

	pay := func(key string, result error) error {
		_, err := guard.Do(ctx, "pay", key, func(ctx context.Context, tx *sqlx.Tx) error {
			receipt := message.NewMessageWithContext(ctx, watermill.NewUUID(), []byte("receipt of "+key))
			if err := publisher.Publish("receipts", receipt); err != nil {
				return err
			}
			return result
		})
		return err
	}
	fmt.Println(pay("order-1", errors.New("no such account")))
	fmt.Println(pay("order-2", nil))
	receipt := <-receipts
	fmt.Println(string(receipt.Payload))
	receipt.Ack()
	// Output:
	// consumer "billing/pay", key "order-1": no such account
	// <nil>
	// receipt of order-2
}

// With several publishers the relay has to be told which one sends what.
func ExampleGuard_Relay() {
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(context.Background())
	internal := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	partners := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})

	fmt.Println(guard.Relay(internal))                                   // all topics
	fmt.Println(guard.Relay(partners, "invoices-out", "statements-out")) // but these
	// Output:
	// <nil>
	// <nil>
}

// refusing is a publisher of a broker that takes no message.
type refusing struct{}

func (refusing) Publish(string, ...*message.Message) error {
	return once.Permanent(errors.New("message too large"))
}
func (refusing) Close() error { return nil }

// An output that cannot be sent is kept until somebody decides about it.
func ExampleGuard_DeadOutputs() {
	ctx := context.Background()
	died := make(chan struct{})
	guard, _ := openExample(once.Config{
		Service: "billing", RelayEvery: time.Millisecond, RelayAge: time.Millisecond,
		Observer: once.ObserverFunc(func(_ context.Context, e once.Event) {
			if failed, ok := e.(once.OutputFailed); ok && failed.Dead {
				close(died)
			}
		}),
	})
	defer guard.Close(ctx)
	publisher := guard.Publisher(refusing{})
	_, err := guard.Do(ctx, "pay", "order-1", func(ctx context.Context, tx *sqlx.Tx) error {
		return publisher.Publish("receipts", message.NewMessageWithContext(ctx, "receipt-1", nil))
	})
	fmt.Println("unsent:", errors.Is(err, once.ErrUnsent))
	<-died
	var dead int
	for dead == 0 { // the event comes before the store is told
		outputs, err := guard.DeadOutputs(ctx, 10)
		if err != nil {
			panic(err)
		}
		for _, o := range outputs {
			fmt.Println(o.UUID, "for", o.Topic, "is dead:", o.Reason)
		}
		dead = len(outputs)
	}
	dropped, _ := guard.DropOutputs(ctx, 1)
	fmt.Println("dropped another one:", dropped > 0)
	// Output:
	// unsent: true
	// receipt-1 for receipts is dead: message too large
	// dropped another one: false
}

// The framework around this handler hides its error. Reported, it rolls back.
func ExampleReport() {
	ctx := context.Background()
	guard, db := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)
	_, err := guard.Do(ctx, "pay", "order-1", func(ctx context.Context, tx *sqlx.Tx) error {
		tx.MustExecContext(ctx, `UPDATE accounts SET balance = 0`)
		_ = once.Report(ctx, errors.New("the card was refused"))
		return nil
	})
	var balance int
	_ = db.Get(&balance, `SELECT balance FROM accounts`)
	fmt.Println(balance, err)
	// Output: 100 consumer "billing/pay", key "order-1": the card was refused
}

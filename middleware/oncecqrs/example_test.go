package oncecqrs_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// example is what the examples share: a guarded router over a database in
// memory, and a broker in the process.
type example struct {
	guard  *once.Guard
	router *message.Router
	broker *gochannel.GoChannel
	close  func()
}

func openExample(config once.Config) *example {
	s, err := sqlite.Open(":memory:", quiet())
	check(err)
	check(s.Migrate(context.Background()))
	s.DB().MustExec(`CREATE TABLE effects (id TEXT)`)
	config.Service, config.Observer = "shop", once.ObserverFunc(func(_ context.Context, e once.Event) {
		if e, ok := e.(once.AttemptEnded); ok {
			fmt.Fprintln(os.Stdout, e.Handler, e.Outcome)
		}
	})
	guard, err := once.New(s, config)
	check(err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	check(err)
	router.AddPlugin(guard.Plugin)
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	return &example{guard, router, broker, func() {
		var n int
		check(s.DB().Get(&n, `SELECT count(*) FROM effects`))
		fmt.Fprintln(os.Stdout, "effects:", n)
		check(guard.Close(context.Background()))
		check(router.Close())
		check(broker.Close())
	}}
}

// commands starts a command processor on one topic for each command.
func (x *example) commands(config cqrs.CommandProcessorConfig, handler cqrs.CommandHandler) {
	config.Marshaler = marshaler()
	config.GenerateSubscribeTopic = func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
		return p.CommandName, nil
	}
	config.SubscriberConstructor = func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
		return x.broker, nil
	}
	processor, err := cqrs.NewCommandProcessorWithConfig(x.router, config)
	check(err)
	check(processor.AddHandlers(handler))
	go func() { check(x.router.Run(context.Background())) }()
	<-x.router.Running()
}

func (x *example) send(cmd any, metadata ...string) {
	msg, err := marshaler().Marshal(cmd)
	check(err)
	for i := 0; i < len(metadata); i += 2 {
		msg.Metadata.Set(metadata[i], metadata[i+1])
	}
	check(x.broker.Publish(marshaler().Name(cmd), msg))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A command that fails is acked as the option says, and leaves nothing behind.
func ExampleOnCommand() {
	x := openExample(once.Config{})
	x.commands(cqrs.CommandProcessorConfig{
		AckCommandHandlingErrors: true,
		OnHandle:                 oncecqrs.OnCommand(nil),
	}, cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
		return errors.Join(write(ctx, cmd.ID), errors.New("out of stock"))
	}))
	x.send(placeOrder{"1"})
	x.close()
	// Output:
	// place dropped
	// effects: 0
}

// A command that fails is answered, and leaves nothing but its answer.
func ExampleNewCommandHandlerWithResult() {
	x := openExample(once.Config{})
	replies := gochannel.NewGoChannel(gochannel.Config{}, nil)
	defer replies.Close()
	backend, err := requestreply.NewPubSubBackend(requestreply.PubSubBackendConfig{
		AckCommandErrors:       true,
		Publisher:              x.guard.Publisher(replies),
		SubscriberConstructor:  func(requestreply.PubSubBackendSubscribeParams) (message.Subscriber, error) { return replies, nil },
		GeneratePublishTopic:   func(requestreply.PubSubBackendPublishParams) (string, error) { return "replies", nil },
		GenerateSubscribeTopic: func(requestreply.PubSubBackendSubscribeParams) (string, error) { return "replies", nil },
	}, requestreply.BackendPubsubJSONMarshaler[receipt]{})
	check(err)

	pay := func(ctx context.Context, cmd *placeOrder) (receipt, error) {
		return receipt{}, errors.Join(write(ctx, cmd.ID), errors.New("the card was declined"))
	}
	x.commands(cqrs.CommandProcessorConfig{}, oncecqrs.NewCommandHandlerWithResult("pay", backend, pay))

	answers, err := backend.ListenForNotifications(context.Background(), requestreply.BackendListenForNotificationsParams{OperationID: "op"})
	check(err)
	x.send(placeOrder{"1"}, requestreply.OperationIDMetadataKey, "op")
	fmt.Println("answer:", (<-answers).Error)
	x.close()
	// Output:
	// pay processed
	// answer: the card was declined
	// effects: 0
}

// A message that a handler has no use for costs no claim.
func ExampleHandles() {
	x := openExample(once.Config{Handlers: map[string]once.HandlerConfig{
		"place": {When: oncecqrs.Handles(marshaler(), placeOrder{})},
	}})
	x.commands(cqrs.CommandProcessorConfig{}, cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
		return write(ctx, cmd.ID)
	}))
	x.send(placeOrder{"1"})
	msg, err := marshaler().Marshal(sendMail{"1"})
	check(err)
	check(x.broker.Publish("placeOrder", msg))
	x.close()
	// Output:
	// place processed
	// place skipped
	// effects: 1
}

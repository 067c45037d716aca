package billing

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// The whole way: gochannel → router → guard → handler → SQLite. Publish returns
// when the message is acked (BlockPublishUntilSubscriberAck), so that the test
// knows when to look and never sleeps.

func TestDuplicateChargesOnce(t *testing.T) {
	t.Parallel()
	claims := openStore(t)
	outcomes := make(chan once.Outcome, 2)
	publish := startRouter(t, claims, outcomes)

	charge := message.NewMessage(watermill.NewUUID(), []byte(`{"account": "alice", "cents": 300}`))
	publish(charge)
	publish(charge)

	wantBalance(t, claims.DB(), 700)
	if first, second := <-outcomes, <-outcomes; first != once.Processed || second != once.Duplicate {
		t.Errorf("outcomes = %s, %s; want processed, duplicate", first, second)
	}
}

// startRouter runs the handler behind a guard until the test ends. Every
// attempt's outcome goes to outcomes.
func startRouter(t *testing.T, claims store.Store, outcomes chan<- once.Outcome) (publish func(*message.Message)) {
	t.Helper()
	guard, err := once.New(claims, once.Config{Service: "billing", Observer: report(outcomes)})
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddPlugin(guard.Plugin)
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	router.AddConsumerHandler("charge", "charges", broker, Handle)

	run(t, router, guard)
	return func(msg *message.Message) {
		t.Helper()
		if err := broker.Publish("charges", msg); err != nil {
			t.Fatal(err)
		}
	}
}

// run returns when the router takes messages, and ends it after the test. A
// router that cannot start never says that it runs, so both are waited for.
func run(t *testing.T, router *message.Router, guard *once.Guard) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	select {
	case <-router.Running():
	case err := <-ended:
		t.Fatalf("the router did not start: %v", err)
	}
	t.Cleanup(func() {
		if err := guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := router.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func report(outcomes chan<- once.Outcome) once.Observer {
	return once.ObserverFunc(func(_ context.Context, e once.Event) {
		if e, ok := e.(once.AttemptEnded); ok {
			outcomes <- e.Outcome
		}
	})
}

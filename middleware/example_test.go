package once_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// openExample makes what the examples share: a database in memory with one
// account, and a guard over it.
func openExample(config once.Config) (*once.Guard, *sqlx.DB) {
	s, err := sqlite.Open(":memory:", store.WithLogger(discard))
	if err != nil {
		panic(err)
	}
	if err := s.Migrate(context.Background()); err != nil {
		panic(err)
	}
	s.DB().MustExec(`CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)`)
	s.DB().MustExec(`INSERT INTO accounts VALUES ('a', 100)`)
	if config.Observer == nil {
		config.Observer = once.NopObserver{}
	}
	guard, err := once.New(s, config)
	if err != nil {
		panic(err)
	}
	return guard, s.DB()
}

// A message is delivered three times; the account is charged once.
func Example() {
	ctx := context.Background()
	guard, db := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)

	charged := make(chan struct{})
	charge := func(msg *message.Message) error {
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(msg.Context(), `UPDATE accounts SET balance = balance - 10 WHERE id = ?`, string(msg.Payload)); err != nil {
			return err
		}
		return once.AfterCommit(msg.Context(), func(context.Context) { close(charged) })
	}

	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		panic(err)
	}
	router.AddPlugin(guard.Plugin)
	router.AddConsumerHandler("charge", "orders", broker, charge)
	go func() { _ = router.Run(ctx) }()
	<-router.Running()

	for range 3 {
		if err := broker.Publish("orders", message.NewMessage("order-1", []byte("a"))); err != nil {
			panic(err)
		}
	}
	<-charged
	_ = router.Close()

	var balance int
	_ = db.Get(&balance, `SELECT balance FROM accounts WHERE id = 'a'`)
	fmt.Println("balance:", balance)
	// Output: balance: 90
}

// The chain that is recommended around the guard. The plugin puts the guard
// behind what is registered here.
func ExampleGuard_Plugin() {
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(context.Background())
	broker := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	poison, err := middleware.PoisonQueueWithFilter(broker, "dead-letters", once.Poison)
	if err != nil {
		panic(err)
	}
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: time.Second, ResetContextOnRetry: true}

	router := message.NewDefaultRouter(watermill.NopLogger{})
	router.AddMiddleware(middleware.Recoverer, poison, retry.Middleware, middleware.Recoverer)
	router.AddPlugin(guard.Plugin)
	fmt.Println("ready to run")
	// Output: ready to run
}

// A webhook that is called twice.
func ExampleGuard_Do() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)

	for range 2 {
		result, err := guard.Do(ctx, "payment-webhook", "event-7", func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance + 10 WHERE id = 'a'`)
			return err
		})
		fmt.Println("duplicate:", result.Duplicate, "error:", err)
	}
	// Output:
	// duplicate: false error: <nil>
	// duplicate: true error: <nil>
}

// A statement that may fail is tried behind a savepoint; elsewhere it would
// doom the whole attempt.
func ExampleSavepoint() {
	ctx := context.Background()
	guard, db := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)

	_, err := guard.Do(ctx, "open-account", "1", func(ctx context.Context, tx *sqlx.Tx) error {
		err := once.Savepoint(ctx, func(ctx context.Context) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO accounts VALUES ('a', 0)`) // exists
			return err
		})
		if err == nil {
			return nil
		}
		_, err = tx.ExecContext(ctx, `UPDATE accounts SET balance = 0 WHERE id = 'a'`)
		return err
	})
	var balance int
	_ = db.Get(&balance, `SELECT balance FROM accounts WHERE id = 'a'`)
	fmt.Println("balance:", balance, "error:", err)
	// Output: balance: 0 error: <nil>
}

// What must not happen before the writes are durable, and may be lost.
func ExampleAfterCommit() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)

	for range 2 {
		_, _ = guard.Do(ctx, "price", "1", func(ctx context.Context, _ *sqlx.Tx) error {
			return once.AfterCommit(ctx, func(context.Context) { fmt.Println("cache dropped") })
		})
	}
	// Output: cache dropped
}

// A handler finds out that the message is not for it.
func ExampleErrSkip() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)

	_, err := guard.Do(ctx, "charge", "1", func(context.Context, *sqlx.Tx) error {
		return fmt.Errorf("a test account: %w", once.ErrSkip)
	})
	_, claimed, _ := guard.Lookup(ctx, "charge", "1")
	fmt.Println("error:", err, "claimed:", claimed)
	// Output: error: <nil> claimed: false
}

// An operator lets a message run again.
func ExampleGuard_Forget() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)
	run := func() {
		_, _ = guard.Do(ctx, "report", "2025-01", func(context.Context, *sqlx.Tx) error {
			fmt.Println("report made")
			return nil
		})
	}

	run()
	run()
	forgotten, err := guard.Forget(ctx, "report", "2025-01")
	fmt.Println("forgotten:", forgotten, "error:", err)
	run()
	// Output:
	// report made
	// forgotten: true error: <nil>
	// report made
}

// A claim tells when the work was done.
func ExampleGuard_Lookup() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{Service: "billing"})
	defer guard.Close(ctx)
	_, _ = guard.Do(ctx, "report", "2025-01", func(context.Context, *sqlx.Tx) error { return nil })

	claim, found, err := guard.Lookup(ctx, "report", "2025-01")
	fmt.Println(claim.Consumer, claim.Age < time.Minute, found, err)
	// Output: billing/report true true <nil>
}

// A handler is tested without a guard and without a broker.
func ExampleWithTx() {
	guard, db := openExample(once.Config{Service: "billing"})
	defer guard.Close(context.Background())
	charge := func(msg *message.Message) error {
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(msg.Context(), `UPDATE accounts SET balance = balance - 10 WHERE id = 'a'`)
		return err
	}

	tx := db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	msg := message.NewMessage("order-1", nil)
	msg.SetContext(once.WithTx(context.Background(), tx))
	fmt.Println("error:", charge(msg))

	var balance int
	_ = tx.Get(&balance, `SELECT balance FROM accounts WHERE id = 'a'`)
	fmt.Println("balance:", balance)
	// Output:
	// error: <nil>
	// balance: 90
}

// Without an attempt there is no transaction, and no fallback.
func ExampleTx() {
	_, err := once.Tx(context.Background())
	fmt.Println(errors.Is(err, once.ErrNoTx))
	// Output: true
}

// Two producers make the same ids; their names keep them apart.
func ExampleComposite() {
	key := once.Composite(once.Metadata("producer"), once.UUID)
	for _, producer := range []string{"shop", "shop2"} {
		msg := message.NewMessage("7", nil)
		msg.Metadata.Set("producer", producer)
		fmt.Println(key(msg))
	}
	// Output:
	// 4:shop1:7 <nil>
	// 5:shop21:7 <nil>
}

func ExampleJSONField() {
	key := once.JSONField("order.id")
	fmt.Println(key(message.NewMessage("u", []byte(`{"order":{"id":4711}}`))))
	fmt.Println(key(message.NewMessage("u", []byte(`{"order":{}}`))))
	// Output:
	// 4711 <nil>
	//  field "order.id": the payload does not have it
}

func ExampleMetadata() {
	msg := message.NewMessage("u", nil)
	msg.Metadata.Set("message-id", "4711")
	fmt.Println(once.Metadata("message-id")(msg))
	// Output: 4711 <nil>
}

func ExampleCloudEventsID() {
	fmt.Println(once.CloudEventsID(message.NewMessage("u", []byte(`{"specversion":"1.0","source":"/orders","id":"4711"}`))))
	// Output: 7:/orders4:4711 <nil>
}

func ExamplePayloadHash() {
	key, err := once.PayloadHash(message.NewMessage("u", []byte("hello")))
	fmt.Println(key[:16], err)
	// Output: 2cf24dba5fb0a30e <nil>
}

// An honest retry carries another sent_at and is still a duplicate.
func ExampleFingerprintFields() {
	fingerprint := once.FingerprintFields("sum", "account")
	first, _ := fingerprint(message.NewMessage("u", []byte(`{"sum":10,"account":"a","sent_at":1}`)))
	retry, _ := fingerprint(message.NewMessage("u", []byte(`{"sent_at":2, "account":"a", "sum":10}`)))
	other, _ := fingerprint(message.NewMessage("u", []byte(`{"sum":99,"account":"a","sent_at":1}`)))
	fmt.Println(string(first) == string(retry), string(first) == string(other))
	// Output: true false
}

// A handler that was renamed keeps its claims, and takes its key from a field.
func ExampleHandlerConfig() {
	guard, _ := openExample(once.Config{
		Service: "billing",
		Handlers: map[string]once.HandlerConfig{
			"charge-account": {
				Consumer: "billing/charge", // its name until last year
				Key:      once.JSONField("order.id"),
				When:     func(msg *message.Message) bool { return msg.Metadata.Get("type") == "OrderPlaced" },
			},
		},
	})
	defer guard.Close(context.Background())
	// Output:
}

// Settings that can never work are refused, all at once.
func ExampleNew() {
	s, err := sqlite.Open(":memory:")
	if err != nil {
		panic(err)
	}
	defer s.Close()
	_, err = once.New(s, once.Config{Service: "billing/eu", Wait: 5})
	fmt.Println(err)
	// Output: once: the configuration cannot work: Service "billing/eu" contains a slash, which ends it in a consumer's name: leave it out; Wait 5ns is shorter than a millisecond: was its unit forgotten (5*time.Second)?
}

// What a poison queue may take, and what it must leave to the broker.
func ExamplePoison() {
	fmt.Println(once.Poison(errors.New("no such account")))
	fmt.Println(once.Poison(context.Canceled))
	// Output:
	// true
	// false
}

// A handler knows that trying again is useless.
func ExamplePermanent() {
	err := fmt.Errorf("charge: %w", once.Permanent(errors.New("the account is closed")))
	fmt.Println(err, once.IsPermanent(err))
	// Output: charge: the account is closed true
}

// An observer counts how attempts end.
func ExampleObserverFunc() {
	ctx := context.Background()
	guard, _ := openExample(once.Config{
		Service: "billing",
		Observer: once.ObserverFunc(func(_ context.Context, e once.Event) {
			if e, ok := e.(once.AttemptEnded); ok {
				fmt.Println(e.Consumer, e.Outcome)
			}
		}),
	})
	defer guard.Close(ctx)
	for range 2 {
		_, _ = guard.Do(ctx, "report", "1", func(context.Context, *sqlx.Tx) error { return nil })
	}
	// Output:
	// billing/report processed
	// billing/report duplicate
}

// Logs and metrics from one hook.
func ExampleObservers() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Value.Kind() == slog.KindDuration {
				return slog.Attr{}
			}
			return a
		},
	}))
	metrics := once.ObserverFunc(func(context.Context, once.Event) {})
	observer := once.Observers(once.SlogObserver(logger), metrics)
	observer.Observe(context.Background(), once.Purged{Deleted: 3})
	// Output: level=INFO msg="claims purged" deleted=3
}

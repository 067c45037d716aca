package data

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jmoiron/sqlx"
	"go.uber.org/goleak"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// Each GORM that was opened with PrepareStmt has a goroutine that nothing ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// bank is one database with its claims and a guard.
type bank struct {
	*testing.T
	claims   *store.SQL
	guard    *once.Guard
	outcomes chan once.Outcome
}

// newBank installs the tables in an empty database.
func newBank(t *testing.T, claims *store.SQL, err error) *bank {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{T: t, claims: claims, outcomes: make(chan once.Outcome, 9)}
	b.guard, err = once.New(claims, once.Config{Service: "bank", Observer: once.ObserverFunc(func(_ context.Context, e once.Event) {
		if e, ok := e.(once.AttemptEnded); ok {
			b.outcomes <- e.Outcome
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it closes the store, and that the pool it opened
		if err := b.guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := claims.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), claims.DB()); err != nil {
		t.Fatal(err)
	}
	return b
}

// quiet: the tests say what they need.
var quiet = store.WithLogger(slog.New(slog.DiscardHandler))

func openSQLite(t *testing.T, opts ...store.Option) *bank {
	t.Helper()
	claims, err := sqlite.Open(filepath.Join(t.TempDir(), "bank.db"), append(opts, quiet)...)
	return newBank(t, claims, err)
}

// reset makes the books new: account 1 has 1000, account 2 nothing, and the
// voucher "used" was used.
func (b *bank) reset() {
	b.Helper()
	for _, statement := range []string{
		`DELETE FROM accounts`, `DELETE FROM ledger`, `DELETE FROM vouchers`, `DELETE FROM once_claims`,
		`INSERT INTO accounts (id, balance) VALUES (1, 1000), (2, 0)`,
		`INSERT INTO vouchers (id, message) VALUES ('used', 'earlier')`,
	} {
		if _, err := b.claims.DB().ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	for len(b.outcomes) > 0 {
		<-b.outcomes
	}
}

// books are what is in the database after an attempt.
type books struct{ One, Two, Ledger, Vouchers, Claims int64 }

func (b *bank) want(want books) {
	b.Helper()
	var got books
	err := b.claims.DB().GetContext(b.Context(), &got, `SELECT
		(SELECT balance FROM accounts WHERE id = 1) AS one, (SELECT balance FROM accounts WHERE id = 2) AS two,
		(SELECT COUNT(*) FROM ledger) AS ledger, (SELECT COUNT(*) FROM vouchers) AS vouchers,
		(SELECT COUNT(*) FROM once_claims) AS claims`)
	if err != nil {
		b.Fatal(err)
	}
	if got != want {
		b.Errorf("the books are %+v, want %+v", got, want)
	}
}

// untouched are the books of reset.
var untouched = books{One: 1000, Vouchers: 1}

func newMessage(t *testing.T, transfer Transfer) *message.Message {
	t.Helper()
	payload, err := json.Marshal(transfer)
	if err != nil {
		t.Fatal(err)
	}
	return message.NewMessage(watermill.NewUUID(), payload)
}

// deliver makes one attempt with a copy of msg.
func (b *bank) deliver(msg *message.Message, handle message.NoPublishHandlerFunc) error {
	b.Helper()
	_, err := b.guard.Do(b.Context(), "transfer", msg.UUID, func(ctx context.Context, _ *sqlx.Tx) error {
		delivery := msg.Copy()
		delivery.SetContext(ctx)
		return handle(delivery)
	})
	return err
}

// attempt runs fn as a handler that got any message.
func (b *bank) attempt(fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	b.Helper()
	return b.deliver(newMessage(b.T, Transfer{}), func(msg *message.Message) error {
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		return fn(msg.Context(), tx)
	})
}

// publish sends messages through a broker and a router, one after the other,
// and returns when all are acknowledged.
func (b *bank) publish(handle message.NoPublishHandlerFunc, messages ...*message.Message) {
	b.Helper()
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		b.Fatal(err)
	}
	router.AddPlugin(b.guard.Plugin)
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	router.AddConsumerHandler("routed", "transfers", broker, func(msg *message.Message) error {
		if err := handle(msg); err != nil {
			b.Error(err)
			return once.ErrSkip // else it would come again for ever
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(b.Context())) }()
	select {
	case <-router.Running():
	case err := <-ended:
		b.Fatalf("the router did not start: %v", err)
	}
	if err := broker.Publish("transfers", messages...); err != nil {
		b.Error(err)
	}
	if err := router.Close(); err != nil {
		b.Error(err)
	}
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

package once_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// storeKind opens real stores of one kind for the tests in stores_*_test.go,
// which hold the whole outcome table against a real router and a real
// database. SQLite is always among them, the servers with the tag integration.
type storeKind struct {
	name      string
	fresh     func(t *testing.T) string // the DSN of an empty database
	dial      func(dsn string) (*store.SQL, error)
	open      func(t *testing.T) *store.SQL                    // one of them
	wire      func(t *testing.T) (*store.SQL, *storetest.Wire) // nil without a wire
	oneWriter bool
	deferred  string // DDL of a table with a constraint that is checked at the commit
	minWait   time.Duration
}

func storeKinds() []storeKind {
	return append([]storeKind{{
		name:  "sqlite",
		fresh: freshFile,
		dial:  func(dsn string) (*store.SQL, error) { return sqlite.Open(dsn) },
		open: func(t *testing.T) *store.SQL {
			s, err := sqlite.Open(freshFile(t))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		oneWriter: true,
		deferred:  `CREATE TABLE late (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES late (id) DEFERRABLE INITIALLY DEFERRED)`,
		minWait:   100 * time.Millisecond,
	}}, serverStores()...)
}

func freshFile(t *testing.T) string { return filepath.Join(t.TempDir(), "once.db") }

// house is a service in small: broker, router with dead letters, guard, store,
// and a table of effects.
type house struct {
	t      *testing.T
	store  *store.SQL
	guard  *once.Guard
	seen   *recorder
	router *message.Router
	broker *gochannel.GoChannel
	dead   <-chan *message.Message
	atOnce bool // deliver does not wait, so that copies can be in flight together
}

// newHouse builds all but the handler; run starts it.
func newHouse(t *testing.T, s *store.SQL, change func(*once.Config)) *house {
	t.Helper()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, store: s, seen: &recorder{}}
	h.exec(`CREATE TABLE effects (id VARCHAR(64) NOT NULL)`)

	c := quick()
	c.Hold = 10 * time.Second
	c.Observer = h.seen
	c.Wait = 5 * time.Second
	if change != nil {
		change(&c)
	}
	h.guard = newGuard(t, s, c)
	t.Cleanup(func() { storetest.PoolIdle(t, s.DB().DB) })
	return h
}

func (h *house) exec(query string) {
	h.t.Helper()
	if _, err := h.store.DB().ExecContext(h.t.Context(), query); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
}

// run starts a router with the handler. Extra middlewares stand outside the
// guard.
func (h *house) run(handle message.NoPublishHandlerFunc, outside ...message.HandlerMiddleware) {
	h.t.Helper()
	h.broker = gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: !h.atOnce}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.router = router
	// Only what fails every time is given up on here, so that a test can let
	// the broker redeliver what failed once. The dead letters have a broker of
	// their own, whose Publish waits for nobody.
	dead := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 10}, watermill.NopLogger{})
	poison, err := wmw.PoisonQueueWithFilter(dead, "dead", once.IsPermanent)
	if err != nil {
		h.t.Fatal(err)
	}
	router.AddMiddleware(poison)
	router.AddMiddleware(outside...)
	router.AddPlugin(h.guard.Plugin)
	router.AddConsumerHandler("handler", "topic", h.broker, handle)
	ran := make(chan error, 1)
	go func() { ran <- router.Run(context.WithoutCancel(h.t.Context())) }()
	select {
	case <-router.Running():
	case err := <-ran:
		h.t.Fatalf("Run: %v", err)
	}
	if h.dead, err = dead.Subscribe(h.t.Context(), "dead"); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := router.Close(); err != nil {
			h.t.Errorf("router.Close: %v", err)
		}
		<-ran
		_ = h.broker.Close()
		_ = dead.Close()
	})
}

// deliver publishes and returns when the message is acknowledged, for which the
// broker may have had to deliver it several times.
func (h *house) deliver(uuid, payload string) {
	h.t.Helper()
	if err := h.broker.Publish("topic", message.NewMessage(uuid, []byte(payload))); err != nil {
		h.t.Error(err)
	}
}

// ended waits until as many attempts ended with an outcome.
func (h *house) ended(outcome once.Outcome, times int) {
	h.t.Helper()
	storetest.Eventually(h.t, storetest.Patience, outcome.String(), func() error {
		got := 0
		for _, o := range h.seen.outcomes() {
			if o == outcome {
				got++
			}
		}
		if got < times {
			return fmt.Errorf("%d of %d so far", got, times)
		}
		return nil
	})
}

// deadLetter publishes what must end among the dead letters, and returns why.
func (h *house) deadLetter(uuid, payload string) string {
	h.t.Helper()
	h.deliver(uuid, payload)
	select {
	case msg := <-h.dead:
		defer msg.Ack()
		return msg.Metadata.Get(wmw.ReasonForPoisonedKey)
	case <-time.After(storetest.Patience):
		h.t.Fatal("nothing came to the dead letters")
		return ""
	}
}

// writeEffect writes the message's id through the claim's transaction.
func writeEffect(msg *message.Message) error {
	tx, err := once.Tx(msg.Context())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(msg.Context(), tx.Rebind(`INSERT INTO effects (id) VALUES (?)`), msg.UUID)
	return err
}

// want checks what is left in the database and how the attempts ended.
func (h *house) want(effects, claims int, outcomes ...once.Outcome) {
	h.t.Helper()
	for table, want := range map[string]int{"effects": effects, "once_claims": claims} {
		var got int
		if err := h.store.DB().GetContext(context.WithoutCancel(h.t.Context()), &got, "SELECT COUNT(*) FROM "+table); err != nil {
			h.t.Fatal(err)
		}
		if got != want {
			h.t.Errorf("%d rows in %s, want %d", got, table, want)
		}
	}
	got := h.seen.outcomes()
	if len(got) != len(outcomes) {
		h.t.Fatalf("attempts ended %v, want %v", got, outcomes)
	}
	for i := range got {
		if got[i] != outcomes[i] {
			h.t.Fatalf("attempts ended %v, want %v", got, outcomes)
		}
	}
}

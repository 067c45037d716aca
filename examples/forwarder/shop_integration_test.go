//go:build integration

package forwarder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// patience is long because watermill-sql on PostgreSQL reads nothing while an
// older transaction writes anywhere in the server, and other tests do that.
const patience = time.Minute

// far is the broker behind the shop. It fails as often as it is told.
type far struct {
	mu    sync.Mutex
	fails int
	hold  chan struct{}       // not nil: Publish waits until it is closed
	got   map[string][]string // order → UUIDs
	came  chan struct{}       // told of each message, if anybody listens
	held  chan struct{}       // told when it waits
}

func newFar() *far {
	return &far{got: map[string][]string{}, came: make(chan struct{}, 1), held: make(chan struct{}, 1)}
}

func (f *far) Publish(topic string, msgs ...*message.Message) error {
	f.wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, msg := range msgs {
		if f.fails--; f.fails >= 0 {
			return errors.New("the broker does not answer")
		}
		if topic != Placed {
			return fmt.Errorf("unknown topic %q", topic)
		}
		f.got[string(msg.Payload)] = append(f.got[string(msg.Payload)], msg.UUID)
		select {
		case f.came <- struct{}{}:
		default:
		}
	}
	return nil
}

func (f *far) Close() error { return nil }

func (f *far) wait() {
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold == nil {
		return
	}
	select {
	case f.held <- struct{}{}:
	default:
	}
	<-hold
}

func (f *far) failNext(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = n
}

// same says how the messages that came differ from the orders that there are:
// each order has to have been told of, under one UUID, and nothing else.
func (f *far) same(db *sqlx.DB) error {
	var orders []string
	if err := db.Select(&orders, `SELECT id FROM orders`); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.got) != len(orders) {
		return fmt.Errorf("%d orders, %d were told of", len(orders), len(f.got))
	}
	for _, id := range orders {
		uuids := f.got[id]
		if len(uuids) == 0 {
			return fmt.Errorf("order %s was not told of", id)
		}
		for _, uuid := range uuids {
			if uuid != uuids[0] {
				return fmt.Errorf("order %s was told of as %q", id, uuids)
			}
		}
	}
	return nil
}

// way is one of the two, with what it needs to run.
type way struct {
	name    string
	publish func(d database, g *once.Guard, out message.Publisher) Publish
	run     func(t *testing.T, d database, s *store.SQL, out message.Publisher) // nil: nothing
}

func ways() []way {
	return []way{
		{
			name:    "stored outputs",
			publish: func(_ database, g *once.Guard, out message.Publisher) Publish { return Store(g, out) },
		},
		{
			name:    "forwarder",
			publish: func(d database, _ *once.Guard, _ message.Publisher) Publish { return Forward(d.dialect) },
			run:     runDaemon,
		},
	}
}

// poll is how often either way looks for what is left.
const poll = 50 * time.Millisecond

func runDaemon(t *testing.T, d database, s *store.SQL, out message.Publisher) {
	t.Helper()
	daemon, err := Daemon(s.DB(), d.dialect, out, poll)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- daemon.Run(context.WithoutCancel(t.Context())) }()
	select {
	case <-daemon.Running():
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := daemon.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

func onEach(t *testing.T, run func(t *testing.T, d database, w way)) {
	for _, d := range databases() {
		for _, w := range ways() {
			t.Run(d.name+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				run(t, d, w)
			})
		}
	}
}

func newGuard(t *testing.T, s *store.SQL, relay time.Duration) *once.Guard {
	t.Helper()
	g, err := once.New(s, once.Config{
		Service: "shop", Observer: once.NopObserver{}, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
		RelayEvery: relay, RelayAge: poll, // as short as the poll above
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// serve runs a router with the handler and returns how orders are brought: as
// often as it is asked to, until each is acked.
func serve(t *testing.T, g *once.Guard, handle message.NoPublishHandlerFunc) (bring func(id string)) {
	t.Helper()
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: storetest.Patience}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddPlugin(g.Plugin)
	router.AddConsumerHandler("orders", "orders", broker, handle)
	done := make(chan error, 1)
	go func() { done <- router.Run(context.WithoutCancel(t.Context())) }()
	select {
	case <-router.Running():
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Error(err)
		}
		<-done
		_ = broker.Close()
	})
	return func(id string) {
		if err := broker.Publish("orders", message.NewMessage("m"+id, []byte(id))); err != nil {
			t.Error(err)
		}
	}
}

package oncecqrs_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// storeKind opens fresh stores: SQLite always, the servers with the tag
// integration.
type storeKind struct {
	name string
	open func(t *testing.T) *store.SQL
}

func quiet() store.Option { return store.WithLogger(slog.New(slog.DiscardHandler)) }

func onEachStore(t *testing.T, run func(t *testing.T, s *service)) {
	t.Helper()
	for _, k := range append(serverStores(), storeKind{"sqlite", openSQLite}) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			run(t, newService(t, k.open(t), once.Config{}))
		})
	}
}

func openSQLite(t *testing.T) *store.SQL {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "once.db"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// service is an application: broker, router, guard, database, and what its
// buses publish with. Its broker's Publish returns when all subscribers have
// acked, so that whoever published may look at once.
type service struct {
	*testing.T
	store   *store.SQL
	guard   *once.Guard
	seen    *recorder
	router  *message.Router
	broker  *gochannel.GoChannel
	replies *gochannel.GoChannel // whose Publish waits for nobody, so that a handler may subscribe
	out     *outlet
}

func newService(t *testing.T, s *store.SQL, c once.Config) *service {
	t.Helper()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS effects (id VARCHAR(64) NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	t.Cleanup(func() { _ = broker.Close() })
	replies := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	t.Cleanup(func() { _ = replies.Close() })
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: storetest.Patience}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	sv := &service{T: t, store: s, seen: &recorder{}, router: router, broker: broker, replies: replies}
	sv.out = &outlet{pub: broker, replies: replies}

	c.Service, c.Observer = "shop", sv.seen
	c.BackoffMin, c.BackoffMax, c.PurgeEvery = time.Millisecond, time.Millisecond, -1
	if sv.guard, err = once.New(s, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sv.close)
	router.AddPlugin(sv.guard.Plugin)
	return sv
}

func (s *service) close() {
	ctx, cancel := context.WithTimeout(context.Background(), storetest.Patience)
	defer cancel()
	if err := s.guard.Close(ctx); err != nil {
		s.Errorf("close the guard: %v", err)
	}
}

// run starts the router.
func (s *service) run() {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- s.router.Run(context.WithoutCancel(s.Context())) }()
	select {
	case <-s.router.Running():
	case err := <-done:
		s.Fatalf("Run: %v", err)
	}
	s.Cleanup(func() {
		if err := s.router.Close(); err != nil {
			s.Errorf("close the router: %v", err)
		}
		<-done // the error is Close's
	})
}

// marshaler names messages as their topics are named.
func marshaler() cqrs.CommandEventMarshaler {
	return cqrs.JSONMarshaler{GenerateName: cqrs.StructName}
}

// deliver has the broker bring a command or an event, and returns when every
// handler has acked it.
func (s *service) deliver(uuid string, v any) {
	s.Helper()
	s.deliverTo(marshaler().Name(v), uuid, v)
}

func (s *service) deliverTo(topic, uuid string, v any) {
	s.Helper()
	msg, err := marshaler().Marshal(v)
	if err != nil {
		s.Error(err)
		return
	}
	msg.UUID = uuid
	if err := s.broker.Publish(topic, msg); err != nil {
		s.Error(err)
	}
}

// write leaves an effect in the claim's transaction.
func write(ctx context.Context, id string) error {
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, tx.Rebind(`INSERT INTO effects (id) VALUES (?)`), id)
	return err
}

func (s *service) wantEffects(want ...string) {
	s.Helper()
	got := []string{}
	if err := s.store.DB().Select(&got, `SELECT id FROM effects ORDER BY id`); err != nil {
		s.Fatal(err)
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		s.Errorf("effects are %q, want %q", got, want)
	}
}

func (s *service) wantClaims(want int) {
	s.Helper()
	var got int
	if err := s.store.DB().Get(&got, `SELECT count(*) FROM once_claims`); err != nil {
		s.Fatal(err)
	}
	if got != want {
		s.Errorf("%d claims, want %d", got, want)
	}
}

func (s *service) wantOutcomes(handler string, want ...once.Outcome) {
	s.Helper()
	var got []once.Outcome
	for _, e := range s.seen.attempts(handler) {
		got = append(got, e.Outcome)
	}
	if !slices.Equal(got, want) {
		s.Errorf("attempts of %s ended %v, want %v", handler, got, want)
	}
}

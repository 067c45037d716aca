package once_test

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"go.uber.org/goleak"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestMain(m *testing.M) {
	if crashChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// quick is a configuration for tests that do not care about time.
func quick() once.Config {
	return once.Config{
		Service:    "svc",
		BackoffMin: time.Millisecond,
		BackoffMax: time.Millisecond,
		Hold:       time.Millisecond,
		PurgeEvery: -1,
		Observer:   once.NopObserver{},
	}
}

func newGuard(tb testing.TB, s store.Store, c once.Config) *once.Guard {
	tb.Helper()
	g, err := once.New(s, c)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return g
}

// recorder is an observer that keeps what it saw.
type recorder struct {
	mu     sync.Mutex
	events []once.Event
}

func (r *recorder) Observe(_ context.Context, e once.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// eventsOf returns the events of one type, in their order.
func eventsOf[E once.Event](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []E
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

// outcomes returns how the attempts ended, in their order.
func (r *recorder) outcomes() []once.Outcome {
	var list []once.Outcome
	for _, e := range eventsOf[once.AttemptEnded](r) {
		list = append(list, e.Outcome)
	}
	return list
}

func (r *recorder) wantOutcomes(t *testing.T, want ...once.Outcome) {
	t.Helper()
	if got := r.outcomes(); !reflect.DeepEqual(got, want) {
		t.Errorf("outcomes are %v, want %v", got, want)
	}
}

var contexts sync.Map

// handlerContext is the context that a router gives to a message of a handler,
// without its cancellation. Only a router can make one.
func handlerContext(tb testing.TB, handler, topic string) context.Context {
	tb.Helper()
	key := [2]string{handler, topic}
	if ctx, ok := contexts.Load(key); ok {
		return ctx.(context.Context)
	}
	got := make(chan context.Context, 1)
	b := newBus(tb)
	r := b.router(tb)
	r.AddConsumerHandler(handler, topic, b.channel, func(msg *message.Message) error {
		got <- context.WithoutCancel(msg.Context())
		return nil
	})
	b.run(tb, r)
	b.publish(tb, topic, message.NewMessage("1", nil))
	ctx := <-got
	if err := r.Close(); err != nil {
		tb.Fatal(err)
	}
	contexts.Store(key, ctx)
	return ctx
}

// deliver makes a message of handler "h" on topic "t".
func deliver(tb testing.TB, uuid, payload string) *message.Message {
	tb.Helper()
	return message.NewMessageWithContext(handlerContext(tb, "h", "t"), uuid, []byte(payload))
}

// handle runs a handler that returns no messages behind the guard.
func handle(g *once.Guard, fn message.NoPublishHandlerFunc) func(*message.Message) error {
	h := g.Middleware(func(msg *message.Message) ([]*message.Message, error) { return nil, fn(msg) })
	return func(msg *message.Message) error {
		_, err := h(msg)
		return err
	}
}

// bus is a broker for one test.
type bus struct{ channel *gochannel.GoChannel }

func newBus(tb testing.TB) *bus {
	tb.Helper()
	b := &bus{gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})}
	tb.Cleanup(func() { _ = b.channel.Close() })
	return b
}

func (b *bus) router(tb testing.TB) *message.Router {
	tb.Helper()
	r, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, watermill.NopLogger{})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// run starts a router, which is closed at the end of the test.
func (b *bus) run(tb testing.TB, r *message.Router) {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background()) }()
	select {
	case <-r.Running():
	case err := <-done:
		tb.Fatalf("Run: %v", err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Errorf("close the router: %v", err)
		}
		<-done // the error is Close's
	})
}

// elapse lets time pass, in a bubble of synctest.
func elapse(d time.Duration) { <-time.After(d) }

func (b *bus) publish(tb testing.TB, topic string, msgs ...*message.Message) {
	tb.Helper()
	if err := b.channel.Publish(topic, msgs...); err != nil {
		tb.Fatal(err)
	}
}

// within fails the test when c brings nothing in time.
func within[T any](tb testing.TB, c <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		tb.Fatalf("%s: nothing happened in 10 s", what)
		panic("unreachable")
	}
}

var discard = slog.New(slog.DiscardHandler)

package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/storetest"
)

var errSink = errors.New("the broker does not answer")

// sink is a publisher that keeps what it gets, unless fail says otherwise.
type sink struct {
	fail func(topic string, msg *message.Message) error

	mu     sync.Mutex
	got    []*message.Message
	topics []string
	tries  int
	closed bool
}

func (s *sink) Publish(topic string, msgs ...*message.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, msg := range msgs {
		s.tries++
		if s.closed {
			return errors.New("the publisher is closed")
		}
		if s.fail != nil {
			if err := s.fail(topic, msg); err != nil {
				return err
			}
		}
		s.got, s.topics = append(s.got, msg), append(s.topics, topic)
	}
	return nil
}

func (s *sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *sink) set(fail func(topic string, msg *message.Message) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *sink) uuids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	uuids := make([]string, len(s.got))
	for i, msg := range s.got {
		uuids[i] = msg.UUID
	}
	return uuids
}

func (s *sink) messages() []*message.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*message.Message(nil), s.got...)
}

func (s *sink) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

// failTimes fails the first n messages.
func failTimes(n int) func(string, *message.Message) error {
	return func(string, *message.Message) error {
		if n--; n >= 0 {
			return errSink
		}
		return nil
	}
}

// stage is a router with one handler, "h" from topic "t" to topic "out", behind
// the plugin.
type stage struct {
	store  store.Store
	guard  *once.Guard
	router *message.Router
	bus    *bus
	sink   *sink
	seen   *recorder
}

// setUp builds a stage; handle may be nil where before adds other handlers.
func setUp(t *testing.T, s store.Store, handle message.HandlerFunc, before ...func(*stage)) *stage {
	t.Helper()
	st := prepare(t, s, quick())
	if handle != nil {
		st.router.AddHandler("h", "t", st.bus.channel, "out", st.sink, handle)
	}
	for _, f := range before {
		f(st)
	}
	st.router.AddPlugin(st.guard.Plugin)
	st.bus.run(t, st.router)
	return st
}

// prepare makes a stage without handlers.
func prepare(t *testing.T, s store.Store, c once.Config) *stage {
	t.Helper()
	st := &stage{store: s, bus: newBus(t), sink: &sink{}, seen: &recorder{}}
	c.Observer = st.seen
	st.guard = newGuard(t, s, c)
	st.router = st.bus.router(t)
	return st
}

// deliver publishes a message to the handler and waits until it is acked, also
// after some nacks.
func (st *stage) deliver(t *testing.T, uuid string) {
	t.Helper()
	acks := st.endings()
	st.bus.publish(t, "t", message.NewMessage(uuid, []byte(uuid)))
	eventually(t, func() error {
		if st.endings() == acks {
			return fmt.Errorf("message %s was not acked; outcomes: %v", uuid, st.seen.outcomes())
		}
		return nil
	})
}

// endings counts attempts without an error.
func (st *stage) endings() (n int) {
	for _, e := range eventsOf[once.AttemptEnded](st.seen) {
		if e.Err == nil {
			n++
		}
	}
	return n
}

// wantSent waits until the sink got the messages in this order, each once.
func (st *stage) wantSent(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, func() error {
		return sameStrings(st.sink.uuids(), want)
	})
}

// closed ends router and guard, as an application does.
func (st *stage) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := st.guard.Close(ctx); err != nil {
		t.Errorf("close the guard: %v", err)
	}
	if err := st.router.Close(); err != nil {
		t.Errorf("close the router: %v", err)
	}
}

func sameStrings(got, want []string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

func eventually(tb testing.TB, check func() error) {
	tb.Helper()
	storetest.Eventually(tb, storetest.Patience, "", check)
}

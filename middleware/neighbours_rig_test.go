package once_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

// rig is a real router on a real store, in a bubble of synctest: after
// synctest.Wait nothing more happens until time goes on.
type rig struct {
	store  sqliteStore
	seen   *recorder
	guard  *once.Guard
	bus    *bus
	router *message.Router
	runs   atomic.Int32 // of the handler

	// distance is how long a nacked message stays away. Gochannel has none, and
	// time stands still in a bubble while anything runs.
	distance time.Duration

	mu         sync.Mutex
	deliveries []*message.Message
	errs       []error // what the chain returned
	dead       []*message.Message
}

// deadTopic is where poison queues put messages.
const deadTopic = "dead"

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{store: newSQLite(t), seen: &recorder{}, bus: newBus(t), distance: time.Second}
	r.router = r.bus.router(t)
	r.collect(t)
	r.guard = newGuard(t, r.store.SQL, r.config())
	return r
}

func (r *rig) config() once.Config {
	c := quick()
	c.Observer, c.Limit = r.seen, 1
	return c
}

// script is what a handler does after it wrote its effect.
type script func(msg *message.Message, run int) error

// outside runs the handler with the middlewares outside the guard, where the
// plugin leaves them. The first is outermost.
func (r *rig) outside(t *testing.T, handler script, outer ...message.HandlerMiddleware) {
	t.Helper()
	r.router.AddPlugin(r.guard.Plugin)
	r.start(t, handler, outer...)
}

// inside runs it with one middleware inside the guard, as it happens to those
// who add the guard by hand, and a poison queue outside.
func (r *rig) inside(t *testing.T, handler script, inner message.HandlerMiddleware) {
	t.Helper()
	r.start(t, handler, r.poison(t), r.guard.Middleware, inner)
}

func (r *rig) start(t *testing.T, handler script, chain ...message.HandlerMiddleware) {
	t.Helper()
	r.router.AddMiddleware(r.witness)
	r.router.AddMiddleware(chain...)
	r.router.AddConsumerHandler("h", "t", r.bus.channel, func(msg *message.Message) error {
		run := int(r.runs.Add(1))
		if err := effectOf(msg); err != nil {
			return err
		}
		return handler(msg, run)
	})
	r.bus.run(t, r.router)
}

// witness stands outermost. It keeps the distance between a nack and the next
// delivery, as brokers do.
func (r *rig) witness(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if r.note(msg) {
			select {
			case <-time.After(r.distance):
			case <-msg.Context().Done(): // the router is being closed
				return nil, msg.Context().Err()
			}
		}
		out, err := next(msg)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
		return out, err
	}
}

// note keeps the delivery and reports whether it is a redelivery.
func (r *rig) note(msg *message.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := slices.ContainsFunc(r.deliveries, func(m *message.Message) bool { return m.UUID == msg.UUID && count(m.Nacked()) > 0 })
	r.deliveries = append(r.deliveries, msg)
	return again
}

// poison is a poison queue with the filter that the documentation asks for.
func (r *rig) poison(t *testing.T) message.HandlerMiddleware {
	t.Helper()
	m, err := middleware.PoisonQueueWithFilter(r.bus.channel, deadTopic, once.Poison)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rest is longer than the guard's back-off and shorter than the distance
// between two deliveries.
func rest() {
	elapse(100 * time.Millisecond)
	synctest.Wait()
}

// send publishes messages one after another and waits until each is at rest.
func (r *rig) send(t *testing.T, uuids ...string) {
	t.Helper()
	for _, id := range uuids {
		r.bus.publish(t, "t", message.NewMessage(id, []byte(id)))
		rest()
	}
}

// collect receives the dead letters until the broker is closed. It has to be
// there all the time: gochannel holds a mutex while nobody receives, and who
// waits for a mutex is not at rest in a bubble.
func (r *rig) collect(t *testing.T) {
	t.Helper()
	letters, err := r.bus.channel.Subscribe(t.Context(), deadTopic)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for msg := range letters {
			r.mu.Lock()
			r.dead = append(r.dead, msg)
			r.mu.Unlock()
			msg.Ack()
		}
	}()
}

// letters are the dead letters so far.
func (r *rig) letters() []*message.Message {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dead)
}

// returned are the errors that reached the router, nil for an ack.
func (r *rig) returned() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

// in runs f in a bubble with a rig of its own.
func in(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t)) })
}

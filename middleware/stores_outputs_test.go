package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// ours is a store that outlives its guards, as one over an application's pool
// does.
type ours struct{ *store.SQL }

func (ours) Close() error { return nil }

// onStores runs f on each kind of store, or on those named, with the table for
// effects.
func onStores(t *testing.T, f func(t *testing.T, s ours), names ...string) {
	t.Helper()
	t.Parallel()
	for _, kind := range storeKinds() {
		if len(names) > 0 && !slices.Contains(names, kind.name) {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := ours{kind.open(t)}
			t.Cleanup(func() { _ = s.SQL.Close() })
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE effects (id VARCHAR(64) NOT NULL)`); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { storetest.PoolIdle(t, s.DB().DB) })
			f(t, s)
		})
	}
}

func rowsIn(tb testing.TB, s ours, table string) (n int) {
	tb.Helper()
	if err := s.DB().GetContext(context.Background(), &n, "SELECT COUNT(*) FROM "+table); err != nil {
		tb.Fatal(err)
	}
	return n
}

func wantCounts(tb testing.TB, s ours, effects, claims, outputs int) {
	tb.Helper()
	got := [...]int{rowsIn(tb, s, "effects"), rowsIn(tb, s, "once_claims"), rowsIn(tb, s, "once_outputs")}
	if want := [...]int{effects, claims, outputs}; got != want {
		tb.Errorf("effects, claims, outputs: %v, want %v", got, want)
	}
}

// making writes the effect and returns messages with ids that are new each time
// the handler runs, as they are in practice.
func making(n int) message.HandlerFunc {
	var runs atomic.Int64
	return func(msg *message.Message) ([]*message.Message, error) {
		run := runs.Add(1)
		var out []*message.Message
		for i := range n {
			out = append(out, message.NewMessage(fmt.Sprintf("%s-%d-%d", msg.UUID, run, i), []byte(msg.UUID)))
		}
		return out, writeEffect(msg)
	}
}

func TestB01_OnStores(t *testing.T) {
	onStores(t, func(t *testing.T, s ours) {
		st := setUp(t, s, making(3), func(st *stage) { st.sink.fail = failTimes(1) })
		st.deliver(t, "m1")
		st.wantSent(t, "m1-1-0", "m1-1-1", "m1-1-2")
		st.seen.wantOutcomes(t, once.Processed, once.Duplicate)
		st.close(t)
		wantCounts(t, s, 1, 1, 0)
	})
}

func TestW03_OnStores(t *testing.T) {
	onStores(t, func(t *testing.T, s ours) {
		st := setUp(t, s, nil, func(st *stage) { st.sink.fail = failTimes(2) },
			consumer(func(pub message.Publisher, msg *message.Message) error {
				return errors.Join(writeEffect(msg), pub.Publish("one", derived(msg, "a")), pub.Publish("two", derived(msg, "b")))
			}))
		st.deliver(t, "m1")
		st.wantSent(t, "a", "b")
		st.seen.wantOutcomes(t, once.Unsent, once.Unsent, once.Duplicate)
		st.close(t)
		wantCounts(t, s, 1, 1, 0)
	})
}

// relayingSoon is a configuration whose relay takes over at once.
func relayingSoon() once.Config {
	c := quick()
	c.RelayEvery, c.RelayAge = 10*time.Millisecond, time.Millisecond
	return c
}

// W06: a router that closes cancels contexts at once and closes publishers
// under running handlers. With our Close first, all that is in flight is
// committed, acked and sent.
func TestW06_OurCloseSendsAll(t *testing.T) {
	onStores(t, func(t *testing.T, s ours) {
		in := newInFlight(t, s)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- in.guard.Close(ctx) }()
		in.release()
		if err := within(t, closed, "Close"); err != nil {
			t.Error(err)
		}
		in.acked(t)
		if err := in.router.Close(); err != nil {
			t.Error(err)
		}
		if n := len(in.sink.uuids()); n != inFlightMessages {
			t.Errorf("%d outputs were sent", n)
		}
		wantCounts(t, s, inFlightMessages, inFlightMessages, 0)
		if n := in.cancelled.Load(); n > 0 {
			t.Errorf("%d handlers saw their context end", n)
		}
	})
}

// B55, W06: the plain router's Close closes the publisher; what was committed is
// sent, at the latest by the next process.
func TestB55_ThePlainRoutersCloseLosesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, s ours) {
		in := newInFlight(t, s)
		closed := make(chan error, 1)
		go func() { closed <- in.router.Close() }()
		in.release()
		if err := within(t, closed, "Close"); err != nil {
			t.Error(err)
		}
		if err := in.guard.Close(t.Context()); err != nil {
			t.Error(err)
		}
		second := prepare(t, s, relayingSoon())
		if err := errors.Join(second.guard.Relay(second.sink), second.guard.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			sent := append(in.sink.uuids(), second.sink.uuids()...)
			slices.Sort(sent)
			if n := len(slices.Compact(sent)); n != rowsIn(t, s, "effects") {
				return fmt.Errorf("%d outputs for %d effects", n, rowsIn(t, s, "effects"))
			}
			if left := rowsIn(t, s, "once_outputs"); left > 0 {
				return fmt.Errorf("%d outputs are left", left)
			}
			return nil
		})
	})
}

const inFlightMessages = 50

// inFlight is a stage with fifty handlers that wait for each other.
type inFlight struct {
	*stage
	gate      chan struct{}
	cancelled atomic.Int64
}

// asked is a store that tells when it was asked about every message: until then
// the guard may still turn one away.
type asked struct {
	ours
	all  sync.WaitGroup
	keys sync.Map
}

func (a *asked) Do(ctx context.Context, c store.Claim, fn store.Func) (store.Result, error) {
	if _, again := a.keys.LoadOrStore(c.Key, true); !again {
		a.all.Done()
	}
	return a.ours.Do(ctx, c, fn)
}

func newInFlight(t *testing.T, s ours) *inFlight {
	t.Helper()
	in := &inFlight{gate: make(chan struct{})}
	c := quick()
	c.Limit = inFlightMessages
	c.Wait = 20 * time.Second // they take turns on SQLite
	c.AcquireWait = 20 * time.Second
	asked := &asked{ours: s}
	asked.all.Add(inFlightMessages)
	in.stage = prepare(t, asked, c)
	s.DB().SetMaxOpenConns(inFlightMessages + 5)
	in.router.AddHandler("h", "t", in.bus.channel, "out", in.sink, func(msg *message.Message) ([]*message.Message, error) {
		<-in.gate
		if msg.Context().Err() != nil {
			in.cancelled.Add(1)
		}
		return []*message.Message{message.NewMessage("out of "+msg.UUID, nil)}, writeEffect(msg)
	})
	in.router.AddPlugin(in.guard.Plugin)
	in.bus.run(t, in.router)
	for i := range inFlightMessages {
		in.bus.publish(t, "t", message.NewMessage(fmt.Sprint("m", i), nil))
	}
	asked.all.Wait()
	return in
}

func (in *inFlight) release() { close(in.gate) }

// acked checks that each message was done at its first attempt.
func (in *inFlight) acked(t *testing.T) {
	t.Helper()
	outcomes := in.seen.outcomes()
	for _, o := range outcomes {
		if o != once.Processed {
			t.Errorf("an attempt ended %s", o)
		}
	}
	if len(outcomes) != inFlightMessages {
		t.Errorf("%d attempts", len(outcomes))
	}
}

// C08: what the database can never take is a permanent error, and harms nobody
// else.
func TestC08_AnOutputThatIsTooLarge(t *testing.T) {
	onStores(t, func(t *testing.T, s ours) {
		huge := strings.Repeat("x", 17<<20)
		st := setUp(t, s, func(msg *message.Message) ([]*message.Message, error) {
			payload := "small"
			if msg.UUID == "huge" {
				payload = huge
			}
			return []*message.Message{message.NewMessage("out of "+msg.UUID, []byte(payload))}, writeEffect(msg)
		})
		opened := s.DB().Stats().OpenConnections
		st.bus.publish(t, "t", message.NewMessage("huge", nil))
		eventually(t, func() error {
			ended := eventsOf[once.AttemptEnded](st.seen)
			if len(ended) == 0 {
				return errors.New("not yet")
			}
			if !once.IsPermanent(ended[0].Err) || !once.Poison(ended[0].Err) {
				return fmt.Errorf("not permanent: %w", ended[0].Err)
			}
			return wantError(ended[0].Err, store.ErrTooLarge, "max_allowed_packet")
		})
		st.deliver(t, "small")
		st.wantSent(t, "out of small")
		if now := s.DB().Stats().OpenConnections; now > opened+2 {
			t.Errorf("%d connections are open, %d were before", now, opened)
		}
	}, "mariadb") // the others' limits are beyond a test's reach
}

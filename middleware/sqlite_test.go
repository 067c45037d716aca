package once_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// sqliteStore is a migrated SQLite store with a table for effects.
type sqliteStore struct {
	*store.SQL
	db *sqlx.DB
}

func newSQLite(tb testing.TB) sqliteStore {
	tb.Helper()
	s, err := sqlite.Open(filepath.Join(tb.TempDir(), "once.db"), store.WithLogger(discard))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.DB().Exec(`CREATE TABLE effects (id TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', UNIQUE (id, note))`); err != nil {
		tb.Fatal(err)
	}
	return sqliteStore{s, s.DB()}
}

func (s sqliteStore) wantEffects(tb testing.TB, want int) {
	tb.Helper()
	(&fakeStore{db: s.db}).wantEffects(tb, want)
}

// TestSQLite_Outcomes is the outcome table on a real store, as far as it is the
// guard's and the store's together.
func TestSQLite_Outcomes(t *testing.T) {
	t.Parallel()
	type outcome struct {
		outcome once.Outcome
		effects int
		is      error
		class   store.Class
	}
	for name, c := range map[string]struct {
		handler message.NoPublishHandlerFunc
		outcome
	}{
		"first": {effectOf, outcome{once.Processed, 1, nil, 0}},
		"error": {
			func(msg *message.Message) error { return errors.Join(effectOf(msg), errBusiness) },
			outcome{once.Failed, 0, errBusiness, store.ClassHandler},
		},
		"permanent": {
			func(msg *message.Message) error { return errors.Join(effectOf(msg), once.Permanent(errBusiness)) },
			outcome{once.Failed, 0, errBusiness, store.ClassPermanent},
		},
		"skip": {
			func(msg *message.Message) error { return errors.Join(effectOf(msg), once.ErrSkip) },
			outcome{once.Skipped, 0, nil, 0},
		},
		"unique violation that was swallowed": {
			func(msg *message.Message) error { _, _ = effectOf(msg), effectOf(msg); return nil },
			outcome{once.Failed, 0, store.ErrDoomed, store.ClassHandler},
		},
		"unique violation behind a savepoint": {func(msg *message.Message) error {
			ctx := msg.Context()
			err := effectOf(msg)
			if once.Savepoint(ctx, func(ctx context.Context) error { return effect(ctx, msg.UUID) }) == nil {
				return errors.New("no violation")
			}
			return err
		}, outcome{once.Processed, 1, nil, 0}},
		"commit by the handler": {func(msg *message.Message) error {
			tx, err := once.Tx(msg.Context())
			if err != nil {
				return err
			}
			_ = effectOf(msg)
			_ = tx.Commit()
			return nil
		}, outcome{once.Failed, 0, store.ErrForbidden, store.ClassHandler}},
		"deadline of its own": {func(msg *message.Message) error {
			ctx, cancel := context.WithTimeout(msg.Context(), time.Millisecond)
			defer cancel()
			err := effectOf(msg)
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		}, outcome{once.Failed, 0, context.DeadlineExceeded, store.ClassHandler}},
		"nacked": {
			func(msg *message.Message) error { msg.Nack(); return effectOf(msg) },
			outcome{once.Failed, 0, nil, store.ClassHandler},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, seen := newSQLite(t), &recorder{}
			config := quick()
			config.Observer = seen
			g := newGuard(t, s.SQL, config)
			err := handle(g, c.handler)(deliver(t, "m1", "x"))
			if !errors.Is(err, c.is) {
				if c.is != nil {
					t.Errorf("got %v, want %v", err, c.is)
				}
			}
			if err != nil && store.ClassOf(err) != c.class {
				t.Errorf("the class is %v, want %v: %v", store.ClassOf(err), c.class, err)
			}
			s.wantEffects(t, c.effects)
			_, claimed, err := g.Lookup(t.Context(), "h", "m1")
			if err != nil || claimed != (c.outcome.outcome == once.Processed) {
				t.Errorf("claimed %v, %v", claimed, err)
			}
			seen.wantOutcomes(t, c.outcome.outcome)
		})
	}
}

func TestSQLite_DuplicateThenForget(t *testing.T) {
	t.Parallel()
	s, seen := newSQLite(t), &recorder{}
	c := quick()
	c.Observer = seen
	g := newGuard(t, s.SQL, c)
	n := 0
	h := handle(g, func(msg *message.Message) error { n++; return effect(msg.Context(), string(rune('a'+n))) })
	for range 2 {
		if err := h(deliver(t, "m1", "x")); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := g.Forget(t.Context(), "h", "m1"); !ok || err != nil {
		t.Fatalf("forget: %v, %v", ok, err)
	}
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	if err := h(deliver(t, "m1", "another")); !errors.Is(err, store.ErrKeyReused) || !once.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
	s.wantEffects(t, 2)
	seen.wantOutcomes(t, once.Processed, once.Duplicate, once.Processed, once.Reused)
}

func TestSQLite_B36_W02_BrokenHandlersLeakNothing(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	h := handle(newGuard(t, s.SQL, quick()), func(msg *message.Message) error {
		if err := effectOf(msg); err != nil {
			return err
		}
		switch msg.UUID {
		case "panic":
			panic("boom")
		case "exit":
			runtime.Goexit()
		}
		return nil
	})
	for i := range 20 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_ = h(deliver(t, []string{"panic", "exit"}[i%2], "x"))
		}()
		within(t, done, "a broken handler")
	}
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
	if n := s.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
}

func TestSQLite_W11_Nested(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	g, other := newGuard(t, s.SQL, quick()), newGuard(t, s.SQL, quick())
	twice := g.Middleware(other.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil }))
	if _, err := twice(deliver(t, "m1", "x")); !errors.Is(err, store.ErrNested) {
		t.Errorf("got %v", err)
	}
	err := handle(g, func(msg *message.Message) error {
		_, err := g.Do(msg.Context(), "hook", "k", nil)
		return err
	})(deliver(t, "m1", "x"))
	if !errors.Is(err, store.ErrNested) || !once.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestSQLite_B54_DrainAndDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drain, deadline time.Duration
		is              error
		class           store.Class
		effects         int
	}{
		"drained in time": {time.Minute, 0, nil, 0, 1},
		"drain over":      {20 * time.Millisecond, 0, context.Canceled, store.ClassTransient, 0},
		"deadline":        {time.Minute, 2 * time.Second, context.DeadlineExceeded, store.ClassHandler, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSQLite(t)
			config := quick()
			config.Drain = c.drain
			ctx, cancel := context.WithCancel(handlerContext(t, "h", "t"))
			defer cancel()
			if c.deadline > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, c.deadline)
				defer stop()
			}
			h := handle(newGuard(t, s.SQL, config), func(msg *message.Message) error {
				err := effectOf(msg)
				cancel()
				if c.is != nil {
					<-msg.Context().Done()
				}
				return err
			})
			err := h(message.NewMessageWithContext(ctx, "m1", nil))
			if !errors.Is(err, c.is) || (err == nil) != (c.is == nil) || err != nil && store.ClassOf(err) != c.class {
				t.Errorf("got %v (%v)", err, store.ClassOf(err))
			}
			s.wantEffects(t, c.effects)
		})
	}
}

func TestSQLite_AStreamThroughARouter(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s.SQL, quick()).Plugin)
	const messages = 100
	var n, done atomic.Int32
	all := make(chan struct{})
	r.AddConsumerHandler("h", "t", b.channel, func(msg *message.Message) error {
		if err := effectOf(msg); err != nil {
			return err
		}
		if n.Add(1)%7 == 0 {
			return errBusiness
		}
		return once.AfterCommit(msg.Context(), func(context.Context) {
			if done.Add(1) == messages {
				close(all)
			}
		})
	})
	b.run(t, r)
	for i := range messages {
		id := "m" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		b.publish(t, "t", message.NewMessage(id, nil), message.NewMessage(id, nil))
	}
	within(t, all, "the stream")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, messages)
}

package once_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

type ctxKey struct{}

func TestB54_CancellationWhileTheHandlerRunsLeavesTheDrainTime(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	for name, c := range map[string]struct {
		handler time.Duration
		is      error
		outcome once.Outcome
	}{
		"done in time":     {20 * time.Second, nil, once.Processed},
		"not done in time": {40 * time.Second, context.Canceled, once.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &recorder{}
				config := quick()
				config.Observer = seen
				g := newGuard(t, newFake(), config)
				ctx, cancel := context.WithCancel(context.WithValue(root, ctxKey{}, "v"))
				defer cancel()
				h := handle(g, func(msg *message.Message) error {
					ctx := msg.Context()
					if ctx.Value(ctxKey{}) != "v" {
						t.Error("a value is lost")
					}
					select {
					case <-time.After(c.handler):
						return ctx.Err()
					case <-ctx.Done():
						return errBusiness // as a driver may say it
					}
				})
				time.AfterFunc(time.Second, cancel)
				began := time.Now()
				err := h(message.NewMessageWithContext(ctx, "m1", nil))
				if !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
					t.Errorf("got %v", err)
				}
				if err != nil && (!once.IsTransient(err) || once.Poison(err)) {
					t.Errorf("a shutdown counts against the message: %v", err)
				}
				if took := time.Since(began); took > 31*time.Second {
					t.Errorf("it took %s", took)
				}
				seen.wantOutcomes(t, c.outcome)
			})
		})
	}
}

func TestB54_CancellationBeforeTheHandlerEndsAtOnce(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		c := quick()
		c.Wait = time.Minute
		g := newGuard(t, s, c)
		release := make(chan struct{})
		first := make(chan error)
		go func() {
			first <- handle(g, func(*message.Message) error { <-release; return nil })(message.NewMessageWithContext(root, "m1", nil))
		}()
		synctest.Wait()

		ctx, cancel := context.WithCancel(root)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		err := handle(g, nothing)(message.NewMessageWithContext(ctx, "m1", nil)) // waits for the copy
		if !errors.Is(err, context.Canceled) || !once.IsTransient(err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestB54_ADeadlineIsNotDetachedFrom(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), quick())
		ctx, cancel := context.WithTimeout(root, 5*time.Second)
		defer cancel()
		began := time.Now()
		h := handle(g, func(msg *message.Message) error {
			want, _ := ctx.Deadline()
			if got, ok := msg.Context().Deadline(); !ok || !got.Equal(want) {
				t.Errorf("the deadline is %v, %v", got, ok)
			}
			cancel() // a shutdown before the deadline does not lift it
			<-msg.Context().Done()
			return msg.Context().Err()
		})
		err := h(message.NewMessageWithContext(ctx, "m1", nil))
		if !errors.Is(err, context.DeadlineExceeded) || once.IsTransient(err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestB54_SubContextsHangOnWithoutGoroutines(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), quick())
		ctx, cancel := context.WithTimeoutCause(root, time.Second, errBusiness)
		defer cancel()
		h := handle(g, func(msg *message.Message) error {
			sub, stop := context.WithCancel(context.WithValue(msg.Context(), ctxKey{}, 1))
			defer stop()
			<-sub.Done()
			if context.Cause(msg.Context()) == nil {
				t.Error("no cause")
			}
			return sub.Err()
		})
		if err := h(message.NewMessageWithContext(ctx, "m1", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestB54_RouterCloseLetsTheHandlerFinish(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, c).Plugin)
	running, parent := make(chan struct{}), make(chan context.Context, 1)
	r.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			parent <- msg.Context()
			return h(msg)
		}
	})
	pub := &closeable{}
	r.AddHandler("h", "t", b.channel, "out", pub, func(msg *message.Message) ([]*message.Message, error) {
		close(running)
		<-(<-parent).Done() // the broker has cancelled the message
		if err := msg.Context().Err(); err != nil {
			t.Errorf("the handler's context ended: %v", err)
		}
		if pub.closed.Load() {
			t.Error("the publisher was closed under the handler")
		}
		return nil, effectOf(msg)
	})
	b.run(t, r)
	b.publish(t, "t", message.NewMessage("m1", nil))
	within(t, running, "the handler")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
	seen.wantOutcomes(t, once.Processed)
	if !pub.closed.Load() {
		t.Error("the publisher was not closed")
	}
}

type closeable struct{ closed atomic.Bool }

func (*closeable) Publish(string, ...*message.Message) error { return nil }
func (p *closeable) Close() error                            { p.closed.Store(true); return nil }

func TestDo_CancellationCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(), quick())
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := g.Do(ctx, "hook", "k", func(ctx context.Context, _ *sqlx.Tx) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, context.Canceled) || !once.IsTransient(err) || time.Since(began) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

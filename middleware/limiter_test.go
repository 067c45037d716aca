package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

func TestW12_TheLimiterHoldsAThousandHandedOverAtOnce(t *testing.T) {
	t.Parallel()
	s := newFake()
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, quick()).Plugin)
	var all sync.WaitGroup
	var running atomic.Int32
	full := make(chan struct{})
	all.Add(1000)
	for _, name := range []string{"a", "b"} {
		r.AddConsumerHandler(name, "t", b.channel, func(msg *message.Message) error {
			if running.Add(1) == once.DefaultLimit {
				close(full)
			}
			<-full // as many as may run at once do
			return once.AfterCommit(msg.Context(), func(context.Context) { all.Done() })
		})
	}
	b.run(t, r)
	for i := range 500 {
		b.publish(t, "t", message.NewMessage(fmt.Sprint(i), nil))
	}
	all.Wait()
	if s.maxOpen != once.DefaultLimit {
		t.Errorf("%d attempts ran at once", s.maxOpen)
	}
}

func TestLimiter_WaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	root := handlerContext(t, "h", "t")
	for name, c := range map[string]struct {
		end func(context.Context) (context.Context, context.CancelFunc)
		is  error
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, context.Canceled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &recorder{}
				config := quick()
				config.Limit = 1
				config.Observer = seen
				g := newGuard(t, newFake(), config)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = g.Do(context.Background(), "hook", "k", func(context.Context, *sqlx.Tx) error { elapse(time.Minute); return nil })
				}()
				synctest.Wait()
				ctx, cancel := c.end(root)
				defer cancel()
				began := time.Now()
				err := handle(g, nothing)(message.NewMessageWithContext(ctx, "m1", nil))
				if !errors.Is(err, c.is) || !once.IsTransient(err) || once.Poison(err) || time.Since(began) != time.Second {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				if e := eventsOf[once.AttemptEnded](seen); e[0].Outcome != once.Cancelled || e[0].Waited != time.Second {
					t.Errorf("the event is %+v", e[0])
				}
				<-done
			})
		})
	}
}

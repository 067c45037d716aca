package once_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// Many attempts share one marking.
func TestMarker_MarksInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		batches := make(chan int, 100)
		s.onMark(func(ids []store.OutputID) error {
			batches <- len(ids)
			return nil
		})
		publishing(t, s, quick(), 100)
		elapse(2 * time.Second)
		if first := <-batches; first != 100 || len(batches) > 0 {
			t.Errorf("the first batch has %d, %d followed", first, len(batches))
		}
		if s.unsent() != 0 {
			t.Errorf("%d are left", s.unsent())
		}
	})
}

func TestMarker_TriesAgainAndTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, seen := newFake(), &recorder{}
		s.onMark(func([]store.OutputID) error { return store.ErrUnavailable })
		c := quick()
		c.Observer = seen
		publishing(t, s, c, 3)
		elapse(3 * time.Second)
		if e := eventsOf[once.MarkFailed](seen); len(e) == 0 || e[0].Waiting != 3 || !errors.Is(e[0].Err, store.ErrUnavailable) {
			t.Errorf("events %+v", e)
		}
		s.onMark(nil)
		elapse(2 * time.Second)
		if s.unsent() != 0 {
			t.Errorf("%d are left", s.unsent())
		}
	})
}

func TestMarker_CloseMarksTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		g := publishing(t, s, quick(), 3)
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if s.unsent() != 0 {
			t.Errorf("%d are left", s.unsent())
		}
	})
}

// publishing makes a guard and n attempts with an output each.
func publishing(t *testing.T, s *fakeStore, c once.Config, n int) *once.Guard {
	t.Helper()
	g := newGuard(t, s, c)
	pub := g.Publisher(&sink{})
	for i := range n {
		_, err := g.Do(t.Context(), "timer", fmt.Sprint(i), func(ctx context.Context, _ *sqlx.Tx) error {
			return pub.Publish("out", message.NewMessageWithContext(ctx, "a", nil))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// Many sent outputs do not wait for the time, unless the store is away.
func TestMarker_ManyAreMarkedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		tries := make(chan int, 1000)
		s.onMark(func(ids []store.OutputID) error {
			tries <- len(ids)
			return store.ErrUnavailable
		})
		began := time.Now()
		g := publishing(t, s, quick(), 300)
		synctest.Wait()
		if n := len(tries); n < 1 || n > 2 || time.Since(began) > 0 {
			t.Errorf("%d tries in %s", n, time.Since(began))
		}
		s.onMark(nil)
		if err := g.Close(t.Context()); err != nil || s.unsent() != 0 {
			t.Errorf("%d are left, %v", s.unsent(), err)
		}
	})
}

package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestPurger_RunsEveryMinuteAndTellsEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFull()
		s.purge = func(_ context.Context, p store.Purge) (int64, error) {
			if p.Retention != once.DefaultRetention || p.Batch != store.DefaultPurgeBatch || p.Confirm {
				t.Errorf("purge is %+v", p)
			}
			return 7, store.ErrPurgeSuspicious
		}
		seen := &recorder{}
		g := newGuard(t, s, once.Config{Service: "svc", Observer: seen})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		elapse(time.Hour)
		synctest.Wait()
		if n := s.purges.Load(); n < 40 || n > 90 {
			t.Errorf("%d purges in an hour", n)
		}
		e := eventsOf[once.Purged](seen)
		if len(e) != int(s.purges.Load()) || e[0].Deleted != 7 || !errors.Is(e[0].Err, store.ErrPurgeSuspicious) {
			t.Errorf("%d events: %+v", len(e), e[0])
		}
	})
}

func TestPurger_CanBeTurnedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFull()
		g := newGuard(t, s, once.Config{Service: "svc", PurgeEvery: -1, Observer: once.NopObserver{}})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		elapse(time.Hour)
		if n := s.purges.Load(); n != 0 {
			t.Errorf("%d purges", n)
		}
	})
}

func TestPurger_EndsWithCloseWhichWaitsForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFull()
		ended := false
		s.purge = func(ctx context.Context, _ store.Purge) (int64, error) {
			<-ctx.Done()
			elapse(time.Second) // the statement under way
			ended = true
			return 3, ctx.Err()
		}
		seen := &recorder{}
		g := newGuard(t, s, once.Config{Service: "svc", Observer: seen})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		elapse(2 * time.Minute)
		if err := g.Close(t.Context()); err != nil || !ended {
			t.Errorf("%v, ended %v", err, ended)
		}
		if e := eventsOf[once.Purged](seen); len(e) != 1 || e[0].Err != nil || e[0].Deleted != 3 {
			t.Errorf("events %+v", e)
		}
	})
}

//go:build integration

package forwarder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// Duplicates, handlers that fail after they have published, a broker that fails
// now and then: each order is there once, each is told of under one UUID, and
// nothing is told of that is not there.
func TestOrderAndMessageAreOne(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, w way) {
		s, _ := d.fresh(t)
		out, g := newFar(), newGuard(t, s, poll)
		if w.run != nil {
			w.run(t, d, s, out)
		}
		handle := Handler(w.publish(d, g, out))
		var failed sync.Map
		bring := serve(t, g, func(msg *message.Message) error {
			id := string(msg.Payload)
			_, again := failed.LoadOrStore(id, true)
			if err := handle(msg); err != nil {
				return err
			}
			switch {
			case id[len(id)-1] == '3' && !again:
				return errors.New("only this time")
			case id[len(id)-1] == '7':
				return fmt.Errorf("never: %w", once.ErrSkip)
			}
			return nil
		})
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for i := range 10 {
					id := fmt.Sprintf("%d-%d", worker, i)
					if i == 5 {
						out.failNext(3)
					}
					bring(id)
					bring(id)
				}
			})
		}
		all.Wait()
		storetest.Eventually(t, patience, "every order is told of", func() error { return out.same(s.DB()) })
		var orders int
		if err := s.DB().Get(&orders, `SELECT count(*) FROM orders`); err != nil || orders != 36 {
			t.Errorf("%d orders, want 36: %v", orders, err)
		}
	})
}

// The process dies between the commit and the sending, and nobody brings the
// order again: guard.Do has no redelivery.
func TestNobodyBringsItAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, w way) {
		s, _ := d.fresh(t)
		out := newFar()
		out.failNext(1 << 30)
		g, err := once.New(s, once.Config{Service: "shop", Observer: once.NopObserver{}, RelayEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		publish := w.publish(d, g, out)
		for i := range 10 {
			id := fmt.Sprint(i)
			_, err := g.Do(t.Context(), "orders", id, func(ctx context.Context, _ *sqlx.Tx) error { return order(ctx, id, publish) })
			if err != nil && !errors.Is(err, once.ErrUnsent) {
				t.Fatal(err)
			}
		}
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(out.got) != 0 {
			t.Fatal("something was sent already")
		}

		out.failNext(2) // the next process, whose broker is slow to come
		next := newGuard(t, s, poll)
		w.publish(d, next, out)
		if err := next.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.run != nil {
			w.run(t, d, s, out)
		}
		storetest.Eventually(t, patience, "every order is told of", func() error { return out.same(s.DB()) })
	})
}

package once_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// aside claims and commits beside the messages. The rig's guard has one slot.
func aside(t *testing.T, r *rig) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	_, err := r.guard.Do(t.Context(), "aside", "k", func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effects (id) VALUES ('aside')`)
		return err
	})
	return time.Since(began), err
}

// pace keeps when the handler ran.
type pace struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func (p *pace) run(*message.Message, int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Since(p.began))
	return nil
}

func throttled() message.HandlerMiddleware {
	return middleware.NewThrottle(1, 10*time.Second).Middleware
}

// throttleOutside: who waits for the throttle holds nothing that others need.
func throttleOutside(t *testing.T, r *rig) {
	p := &pace{began: time.Now()}
	r.outside(t, p.run, throttled())
	r.send(t, "m1", "m2", "m3")
	r.want(t, state{})
	if took, err := aside(t, r); took != 0 || err != nil {
		t.Errorf("another attempt took %v: %v", took, err)
	}
	elapse(time.Minute)
	got := r.state(t)
	if got.runs != 3 || got.effects != 4 || got.acked != 3 || got.nacked != 0 {
		t.Errorf("got %+v", got)
	}
	if want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}; !reflect.DeepEqual(p.at, want) {
		t.Errorf("it ran at %v, want %v", p.at, want)
	}
}

// throttleInside: who waits holds the slot, and on SQLite the whole file.
func throttleInside(t *testing.T, r *rig) {
	p := &pace{began: time.Now()}
	r.inside(t, p.run, throttled())
	r.send(t, "m1")
	if n := r.store.db.Stats().InUse; n != 1 {
		t.Errorf("%d connections are in use", n)
	}
	if took, err := aside(t, r); took < 9*time.Second || err != nil {
		t.Errorf("another attempt took %v: %v", took, err)
	}
	r.want(t, state{
		runs: 1, effects: 2, claims: []string{"m1"}, acked: 1,
		outcomes: []once.Outcome{once.Processed, once.Processed},
	})
}

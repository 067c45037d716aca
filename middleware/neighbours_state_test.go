package once_test

import (
	"reflect"
	"slices"
	"testing"

	once "github.com/watermill-once/watermill-once/middleware"
)

// state is what a test sees of a rig from outside.
type state struct {
	runs, effects int
	claims        []string
	acked, nacked int
	dead          int
	outcomes      []once.Outcome
}

func (r *rig) state(t *testing.T) state {
	t.Helper()
	s := state{runs: int(r.runs.Load()), outcomes: r.seen.outcomes(), dead: len(r.letters())}
	if err := r.store.db.Get(&s.effects, `SELECT count(*) FROM effects`); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range r.deliveries {
		_, claimed, err := r.guard.Lookup(t.Context(), "h", msg.UUID)
		if err != nil {
			t.Fatal(err)
		}
		if claimed && !slices.Contains(s.claims, msg.UUID) {
			s.claims = append(s.claims, msg.UUID)
		}
		s.acked += count(msg.Acked())
		s.nacked += count(msg.Nacked())
	}
	return s
}

func count(settled <-chan struct{}) int {
	select {
	case <-settled:
		return 1
	default:
		return 0
	}
}

func (r *rig) want(t *testing.T, want state) {
	t.Helper()
	if got := r.state(t); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if n := r.store.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
}

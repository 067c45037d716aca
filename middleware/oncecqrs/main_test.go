package oncecqrs_test

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	once "github.com/watermill-once/watermill-once/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is an observer that keeps what it saw.
type recorder struct {
	mu     sync.Mutex
	events []once.Event
}

func (r *recorder) Observe(_ context.Context, e once.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// attempts returns how the attempts of a handler ended, in their order.
func (r *recorder) attempts(handler string) (list []once.AttemptEnded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e, ok := e.(once.AttemptEnded); ok && e.Handler == handler {
			list = append(list, e)
		}
	}
	return list
}

package storetest

import (
	"context"
	"sync"
	"time"
)

// expiring is a context whose deadline passes when the test says so, however
// slow the machine is.
type expiring struct {
	context.Context
	done chan struct{}
	once sync.Once
}

func newExpiring(parent context.Context) *expiring {
	return &expiring{Context: parent, done: make(chan struct{})}
}

func (e *expiring) expire() { e.once.Do(func() { close(e.done) }) }

// Done is closed by expire.
func (e *expiring) Done() <-chan struct{} { return e.done }

// Deadline is one that is far away.
func (e *expiring) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

// Err is [context.DeadlineExceeded] after expire.
func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

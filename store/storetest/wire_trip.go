package storetest

import (
	"sync"
	"testing"
	"time"
)

// Trip is a fault armed on a wire.
type Trip struct {
	match    Match
	fault    Fault
	reached  chan struct{}
	once     sync.Once // closes reached
	released chan struct{}

	mu    sync.Mutex
	taken int // how many requests will meet the fault, or have met it
	hits  int
	free  bool
}

// Reached is closed when the fault has happened for the first time: for a Hold
// when it holds, else when Call has returned, Delay is over and the connection
// is as End says.
func (p *Trip) Reached() <-chan struct{} { return p.reached }

// Await waits until the fault has been reached, and fails the test when that
// takes longer than half a minute.
func (p *Trip) Await(t testing.TB) {
	t.Helper()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	select {
	case <-p.reached:
	case <-timeout.C:
		t.Fatalf("storetest: no statement reached the fault %+v", p.fault)
	}
}

// Hits says how often the fault has happened. It is counted at once: before
// the Call, and before the client can notice.
func (p *Trip) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Release ends a Hold, also for later hits. It may be called more than once.
func (p *Trip) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.free {
		p.free = true
		close(p.released)
	}
}

// claim takes one of the fault's times.
func (p *Trip) claim() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.Times > 0 && p.taken >= p.fault.Times {
		return false
	}
	p.taken++
	return true
}

// hit counts that the fault happens.
func (p *Trip) hit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hits++
}

// reach tells that it has happened, or holds.
func (p *Trip) reach() { p.once.Do(func() { close(p.reached) }) }

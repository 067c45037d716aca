package storetest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// trial is a test that may fail without failing the test that it is part of.
type trial struct {
	testing.TB
	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	said     []string
	failed   bool
	cleanups []func()
}

// try runs f as a test of its own, with its cleanups, and returns the first
// thing that made it fail, or "".
func try(t testing.TB, f func(testing.TB)) string {
	t.Helper()
	r := &trial{TB: t}
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	r.call(func() { f(r) })
	r.stop()
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			break
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		r.call(last)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.failed:
		return ""
	case len(r.said) == 0:
		return "failed and said nothing"
	default:
		return strings.Join(strings.Fields(r.said[0]), " ")
	}
}

// call runs f on a goroutine of its own, as FailNow leaves by Goexit. A panic
// is a failure.
func (r *trial) call(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v: %s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *trial) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	if text != "" {
		r.said = append(r.said, text)
	}
}

func (r *trial) Helper()                        {}
func (r *trial) Log(...any)                     {}
func (r *trial) Logf(string, ...any)            {}
func (r *trial) Context() context.Context       { return r.ctx }
func (r *trial) Error(args ...any)              { r.fail(fmt.Sprintln(args...)) }
func (r *trial) Errorf(format string, a ...any) { r.fail(fmt.Sprintf(format, a...)) }
func (r *trial) Fail()                          { r.fail("") }
func (r *trial) FailNow()                       { r.fail(""); runtime.Goexit() }
func (r *trial) Fatal(args ...any)              { r.Error(args...); runtime.Goexit() }
func (r *trial) Fatalf(format string, a ...any) { r.Errorf(format, a...); runtime.Goexit() }

func (r *trial) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *trial) Cleanup(clean func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = slices.Concat(r.cleanups, []func(){clean})
}

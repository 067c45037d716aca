package storetest

import (
	"testing"
	"time"
)

// Patience is how long [Eventually] waits when it is told no other time: ample
// for a loaded machine, as a passing test never needs it.
const Patience = 15 * time.Second

const (
	firstPoll = 2 * time.Millisecond
	lastPoll  = 100 * time.Millisecond
)

// Eventually asks condition again and again until it returns nil, and fails
// the test with its last error when that takes longer than within (0:
// [Patience]). what names what is waited for.
//
// It is the only place that waits by looking again, and only for what cannot
// tell: a server outside this process. What the code under test does is waited
// for with a signal.
func Eventually(t testing.TB, within time.Duration, what string, condition func() error) {
	t.Helper()
	if within == 0 {
		within = Patience
	}
	deadline := time.Now().Add(within)
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", within, what, err)
		}
		time.Sleep(pause) //nolint:forbidigo // the one place that polls: see above
	}
}

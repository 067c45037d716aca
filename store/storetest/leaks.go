package storetest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Leaks fails the test when, after its other cleanups, goroutines run that did
// not at this call, and shows them. Call it first, and not in a test that runs
// in parallel with others: it looks at the whole process.
func Leaks(t testing.TB) {
	t.Helper()
	leaks(t, Patience)
}

func leaks(t testing.TB, within time.Duration) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		t.Helper()
		Eventually(t, within, "goroutines end", func() error {
			now := goroutines()
			for id := range before {
				delete(now, id)
			}
			if len(now) == 0 {
				return nil
			}
			var stacks strings.Builder
			for _, stack := range now {
				stacks.WriteString("\n\n" + stack)
			}
			return fmt.Errorf("%d run on:%s", len(now), stacks.String())
		})
	})
}

// goroutines returns the stacks of all but the calling goroutine, by "goroutine
// 7", which is never used again.
func goroutines() map[string]string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	found := map[string]string{}
	for i, stack := range strings.Split(string(stacks), "\n\n") {
		if id, _, named := strings.Cut(stack, " ["); named && i > 0 { // the caller is the first
			found[id] = stack
		}
	}
	return found
}

package once

import (
	"context"
	"math/rand/v2"
	"time"
)

// delay is the wait before try n, from 1 on: it doubles from least to most and
// is spread by ±50 %, so that what failed together does not come again
// together.
func delay(least, most time.Duration, n int) time.Duration {
	d := least
	for i := 1; i < n && d < most; i++ {
		d *= 2
	}
	return jitter(min(d, most))
}

// jitter spreads d by ±50 %.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// backoff decides how long to wait before an error is returned. Without it a
// broker that delivers again at once, as gochannel does, turned one failing
// message into 181 248 attempts a second.
//
// The time that the message was held counts, and the sum stays within the
// broker's redelivery time.
func (a *attempt) backoff() (failures int, wait time.Duration) {
	c := &a.guard.config
	failures = a.guard.failures.add(a.failureKey())
	wait = delay(c.BackoffMin, c.BackoffMax, failures) - a.held
	if a.settings != nil && a.settings.redelivery > 0 {
		wait = min(wait, a.settings.budget()-a.held)
	}
	return failures, max(wait, 0)
}

// pause waits for d, or until ctx ends or closing is closed, and reports whether
// it waited to the end.
func pause(ctx context.Context, d time.Duration, closing <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-closing:
		return false
	}
}

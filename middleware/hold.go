package once

import (
	"errors"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// holdable reports whether the store could not be asked, so that the message is
// better kept than given back: a nack would only bring it again, and count
// against it where the broker counts deliveries.
func (a *attempt) holdable(err error) bool {
	if err == nil || a.ran || a.over() != nil {
		return false
	}
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrSchema)
}

// hold waits before the next try, or says that the message was held for long
// enough.
func (a *attempt) hold(err error) bool {
	now := time.Now()
	if a.heldSince.IsZero() {
		a.heldSince = now
	}
	left := a.settings.hold - now.Sub(a.heldSince)
	if left <= 0 {
		return false
	}
	a.holds++
	c := &a.guard.config
	wait := min(delay(c.BackoffMin, c.BackoffMax, a.holds), left)
	if a.guard.observed() {
		a.guard.observe(a.parent, AttemptHeld{Subject: a.about, Err: err, Wait: wait, Held: a.held})
	}
	waited := pause(a.parent, wait, a.guard.closing)
	a.held += time.Since(now)
	return waited
}

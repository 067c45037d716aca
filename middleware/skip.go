package once

import "errors"

// ErrSkip is what a handler returns when the message is not for it. What it
// wrote is rolled back, no claim stays, and the message is acknowledged. It may
// be wrapped.
//
// [Config.When] is cheaper where the message itself shows it: it decides before
// a claim is paid for.
var ErrSkip = errors.New("the message is not for this handler")

// errNacked: the handler settled the message as failed, so it cannot be
// committed as done: the redelivery would be a duplicate and the work lost.
var errNacked = errors.New("the handler nacked the message and returned nil: return an error instead")

package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/examples/payments"
	once "github.com/watermill-once/watermill-once/middleware"
)

// origins tell who sends a receipt. Without this library it is always the
// attempt.
type origins struct {
	mu      sync.Mutex
	handled map[string]bool // transfers, by this process
	left    map[string]bool // by a process that died before it had sent the receipt, or noted it
}

func newOrigins() *origins {
	return &origins{handled: map[string]bool{}, left: map[string]bool{}}
}

// observe learns from the guard's events. An attempt's comes before the router
// gets its outputs.
func (o *origins) observe(_ context.Context, e once.Event) {
	ended, ok := e.(once.AttemptEnded)
	if !ok || ended.Outputs == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case ended.Outcome == once.Processed:
		o.handled[ended.UUID] = true
	case ended.Outcome == once.Duplicate && !o.handled[ended.UUID]:
		o.left[ended.UUID] = true
	}
}

// of looks at a receipt that is about to be sent. The router's messages know the
// handler, the relay's do not.
func (o *origins) of(msg *message.Message) sentBy {
	return o.whose(message.HandlerNameFromCtx(msg.Context()), msg.Payload)
}

func (o *origins) whose(handler string, payload []byte) sentBy {
	if handler == "" {
		return byRelay
	}
	var r payments.Receipt
	_ = json.Unmarshal(payload, &r) // one that cannot be read is of no transfer
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left[r.Transfer] {
		return byDuplicate
	}
	return byAttempt
}

package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Of a hundred transfers, so many fail before the handler has written anything
// and so many after.
const (
	failBefore = 4
	failAfter  = 4
)

var errFault = errors.New("a fault of the demo")

// faults make a handler fail now and then. A transfer that fails does so once
// in a process: the next delivery would succeed.
type faults struct {
	seed uint64

	mu    sync.Mutex
	tried map[string]bool
}

func newFaults(seed uint64) *faults {
	return &faults{seed: seed, tried: map[string]bool{}}
}

func (f *faults) into(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		draw := f.draw(msg.UUID)
		if draw < failBefore {
			return nil, errFault
		}
		receipts, err := next(msg)
		if err != nil {
			return nil, err
		}
		if draw < failBefore+failAfter {
			return nil, errFault
		}
		return receipts, nil
	}
}

// draw returns a number below 100 that depends on the seed and the transfer
// only, and 100 when the transfer was tried before.
func (f *faults) draw(uuid string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried[uuid] {
		return 100
	}
	f.tried[uuid] = true
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, f.seed, uuid) // a hash always takes it
	return h.Sum64() % 100
}

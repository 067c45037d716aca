package main

import (
	"errors"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

// unreliable is a broker's publisher as one meets them: it brings every message
// twice, and unless it is calm, it fails at first.
type unreliable struct {
	message.Publisher
	calm   bool
	failed atomic.Bool
}

func (u *unreliable) Publish(topic string, msgs ...*message.Message) error {
	if !u.calm && u.failed.CompareAndSwap(false, true) {
		return errors.New("the broker does not answer")
	}
	return errors.Join(u.Publisher.Publish(topic, msgs...), u.Publisher.Publish(topic, msgs...))
}

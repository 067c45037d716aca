package oncecqrs_test

import (
	"errors"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

var (
	errBusiness = errors.New("out of stock")
	errBroker   = errors.New("the broker does not answer")
)

// outlet is a publisher in front of the broker's that can fail and that
// remembers what it was given.
type outlet struct {
	pub     message.Publisher
	replies message.Publisher // of the topic "replies"

	mu    sync.Mutex
	fails int // how many more messages fail
	tried []*message.Message
	sent  []*message.Message
}

func (o *outlet) Publish(topic string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		if err := o.try(msg); err != nil {
			return err
		}
		// Not under the lock: the broker waits for handlers, which publish too.
		pub := o.pub
		if topic == "replies" {
			pub = o.replies
		}
		if err := pub.Publish(topic, msg); err != nil {
			return err
		}
		o.note(msg)
	}
	return nil
}

func (o *outlet) try(msg *message.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tried = append(o.tried, msg)
	if o.fails > 0 {
		o.fails--
		return errBroker
	}
	return nil
}

func (o *outlet) note(msg *message.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, msg)
}

// Close leaves the broker to the test.
func (o *outlet) Close() error { return nil }

func (o *outlet) failNext(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = n
}

// messages returns what was tried and what of it was sent.
func (o *outlet) messages() (tried, sent []*message.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.tried), slices.Clone(o.sent)
}

// wantSent checks the types of what was sent, in order, and returns it.
func (s *service) wantSent(names ...string) []*message.Message {
	s.Helper()
	_, sent := s.out.messages()
	got := []string{}
	for _, msg := range sent {
		got = append(got, marshaler().NameFromMessage(msg))
	}
	if !slices.Equal(got, append([]string{}, names...)) {
		s.Errorf("sent %q, want %q", got, names)
	}
	return sent
}

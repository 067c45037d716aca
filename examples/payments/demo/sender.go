package main

import (
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

// sentByField is the metadata that says who sent a receipt.
const sentByField = "sent_by"

// sender is the publisher of the receipts: the broker's own, and around it what
// the demo needs to know and to do. The guard takes it for any other publisher.
type sender struct {
	message.Publisher
	reports *reporter
	origin  func(*message.Message) sentBy
	hang    hang
	hung    atomic.Bool
	begun   sync.Map // receipts by UUID: a copy of the message may be sending the same
	// waitForEnd is where it hangs. It returns when nobody is there to kill it.
	waitForEnd func()
}

func newSender(to message.Publisher, reports *reporter, origin func(*message.Message) sentBy, h hang, waitForEnd func()) *sender {
	return &sender{Publisher: to, reports: reports, origin: origin, hang: h, waitForEnd: waitForEnd}
}

func (s *sender) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := s.send(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

// send returns before the guard has noted that the receipt was sent, and begins
// when what it is about was committed.
func (s *sender) send(topic string, msg *message.Message) error {
	if s.hung.Load() { // no duplicate here is to send the receipt that hangs
		s.waitForEnd()
	}
	by := s.origin(msg)
	_, again := s.begun.LoadOrStore(msg.UUID, true)
	s.maybeHang(beforeSending, by == byAttempt && !again)
	labelled := msg.CopyWithContext()
	labelled.Metadata.Set(sentByField, string(by))
	if err := s.Publisher.Publish(topic, labelled); err != nil {
		return err
	}
	s.maybeHang(afterSending, by == byAttempt && !again)
	return nil
}

// maybeHang hangs in the first receipt after so many acks. It has to be
// one whose handler has just run, and that nobody else is sending; the others
// have been through this.
func (s *sender) maybeHang(m moment, fresh bool) {
	if m != s.hang.Moment || !fresh || s.reports.acks() < s.hang.After || s.hung.Swap(true) {
		return
	}
	s.reports.tell(report{Event: eventHung})
	s.waitForEnd()
}

// receiptOf is a message as the parent counts it.
func receiptOf(msg *message.Message) receipt {
	return receipt{UUID: msg.UUID, Payload: string(msg.Payload), SentBy: sentBy(msg.Metadata.Get(sentByField))}
}

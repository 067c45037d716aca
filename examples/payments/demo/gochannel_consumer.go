package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

const (
	transfersTopic = "transfers"
	receiptsTopic  = "receipts"
	// prefetch is how many messages are in flight. Without a bound a Go channel
	// would hand over all of them at once, since it knows of no back-pressure.
	prefetch = 16
)

// openGoChannel is the consumer's end of a broker whose other end is the parent
// (gochannel.go): what comes through the pipe is published to a Go channel.
func openGoChannel(reports *reporter) source {
	e := &pipeEnd{
		broker: gochannel.NewGoChannel(gochannel.Config{}, nil),
		slots:  make(chan struct{}, prefetch),
		stop:   make(chan struct{}),
	}
	return source{
		topic: transfersTopic, subscriber: e.broker, pump: e.pump, acked: e.acked,
		receiptsTopic: receiptsTopic, publisher: pipePublisher{reports},
	}
}

type pipeEnd struct {
	broker *gochannel.GoChannel
	slots  chan struct{} // one for each message in flight
	stop   chan struct{}
}

// pump reads on while messages wait for their slots, so that it sees at once
// when the parent is gone.
func (e *pipeEnd) pump(lines *json.Decoder) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer close(e.stop)
	for {
		var p parcel
		err := lines.Decode(&p)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil // the parent says stop, or was killed in the middle of a line
		case err != nil:
			return fmt.Errorf("read a message: %w", err)
		}
		waiting.Go(func() { e.publish(p) })
	}
}

func (e *pipeEnd) publish(p parcel) {
	select {
	case e.slots <- struct{}{}:
		_ = e.broker.Publish(transfersTopic, p.message()) // fails only when it is closed
	case <-e.stop:
	}
}

func (e *pipeEnd) acked() { <-e.slots }

// message is the parcel as Watermill knows it.
func (p parcel) message() *message.Message {
	msg := message.NewMessage(p.UUID, message.Payload(p.Payload))
	msg.Metadata.Set(sendingField, strconv.Itoa(p.Sending))
	return msg
}

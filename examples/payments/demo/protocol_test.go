package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A receipt arrives as it was sent, and the other reports stay short.
func TestReports(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	r := newReporter(&pipe)
	msg := message.NewMessage("a", []byte("{ \"transfer\": \"1\" }\n\xff"))
	msg.Metadata.Set(sentByField, string(byRelay))
	msg.Payload = msg.Payload[:len(msg.Payload)-1] // JSON keeps text only
	r.duplicate()
	if err := (pipePublisher{r}).Publish(receiptsTopic, msg); err != nil {
		t.Fatal(err)
	}
	if want := "{\"event\":\"duplicate\"}\n"; !bytes.HasPrefix(pipe.Bytes(), []byte(want)) {
		t.Errorf("reports = %q, want first %q", pipe.String(), want)
	}
	lines := json.NewDecoder(&pipe)
	var got report
	for range 2 {
		got = report{}
		if err := lines.Decode(&got); err != nil {
			t.Fatal(err)
		}
	}
	if want := (report{Event: eventReceipt, Receipt: receiptOf(msg)}); got != want {
		t.Errorf("report = %+v, want %+v", got, want)
	}
}

// A receipt that did not get into the pipe was not sent.
func TestPipeThatIsClosed(t *testing.T) {
	t.Parallel()
	err := (pipePublisher{newReporter(closedPipe{})}).Publish(receiptsTopic, message.NewMessage("a", nil))
	if !errors.Is(err, errClosedPipe) {
		t.Errorf("error = %v, want that of the pipe", err)
	}
}

var errClosedPipe = errors.New("closed")

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errClosedPipe }

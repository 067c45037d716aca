package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// witness is a broker that keeps what it gets, or fails.
type witness struct {
	got []*message.Message
	err error
}

func (w *witness) Publish(_ string, messages ...*message.Message) error {
	if w.err == nil {
		w.got = append(w.got, messages...)
	}
	return w.err
}

func (w *witness) Close() error { return nil }

// errEnd stands for the kill that a consumer waits for.
var errEnd = errors.New("killed")

// publish sends one receipt of a handler and says whether it hung.
func publish(t *testing.T, s *sender) (hung bool) {
	t.Helper()
	return publishAs(t, s, watermill.NewUUID())
}

func publishAs(t *testing.T, s *sender, uuid string) (hung bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			hung = p == errEnd
		}
	}()
	if err := s.Publish("receipts", message.NewMessage(uuid, nil)); err != nil {
		t.Error(err)
	}
	return false
}

// A receipt that a copy of the message has begun to send is not the one to hang:
// it may be out already.
func TestSenderDoesNotHangInARepeatedReceipt(t *testing.T) {
	t.Parallel()
	s := newSender(&witness{}, newReporter(io.Discard), attempted, hang{Moment: beforeSending, After: 1}, func() { panic(errEnd) })
	publishAs(t, s, "a")
	s.reports.acked.Add(1)
	if publishAs(t, s, "a") {
		t.Error("it hangs")
	}
	if !publishAs(t, s, "b") {
		t.Error("it does not hang in a fresh one")
	}
}

func attempted(*message.Message) sentBy { return byAttempt }

func TestSenderHangs(t *testing.T) {
	t.Parallel()
	for m, sent := range map[moment]int{beforeSending: 1, afterSending: 2} {
		broker, reports := &witness{}, new(bytes.Buffer)
		s := newSender(broker, newReporter(reports), attempted, hang{Moment: m, After: 1}, func() { panic(errEnd) })
		if publish(t, s) {
			t.Errorf("%s: it hangs before there was an ack", m)
		}
		s.reports.acked.Add(1)
		for i := range 2 {
			if !publish(t, s) {
				t.Errorf("%s: receipt %d does not hang", m, i+1)
			}
		}
		if len(broker.got) != sent {
			t.Errorf("%s: %d receipts were sent, want %d", m, len(broker.got), sent)
		}
		var r report
		if err := json.NewDecoder(reports).Decode(&r); err != nil || r.Event != eventHung {
			t.Errorf("%s: reported %+v, %v", m, r, err)
		}
	}
}

func TestSenderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broker := &witness{err: errors.New("broken")}
	s := newSender(broker, newReporter(io.Discard), attempted, hang{Moment: afterSending}, nil)
	if err := s.Publish("receipts", message.NewMessage("a", nil)); !errors.Is(err, broker.err) {
		t.Errorf("error = %v, want the broker's", err)
	}
}

// The label is on a copy: the message is the guard's, which sends the same each
// time.
func TestSenderLabels(t *testing.T) {
	t.Parallel()
	broker := &witness{}
	s := newSender(broker, newReporter(io.Discard), newOrigins().of, hang{}, nil)
	msg := message.NewMessage(watermill.NewUUID(), []byte("receipt"))
	if err := s.Publish("receipts", msg); err != nil {
		t.Fatal(err)
	}
	want := receipt{UUID: msg.UUID, Payload: "receipt", SentBy: byRelay}
	if got := receiptOf(broker.got[0]); got != want || len(msg.Metadata) != 0 {
		t.Errorf("sent %+v, want %+v; the message itself has %v", got, want, msg.Metadata)
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	o := newOrigins()
	ended := func(uuid string, outcome once.Outcome, outputs int) {
		o.observe(t.Context(), once.AttemptEnded{Subject: once.Subject{UUID: uuid}, Outcome: outcome, Outputs: outputs})
	}
	ended("1", once.Processed, 1)
	ended("1", once.Duplicate, 1) // of this process's own
	ended("2", once.Duplicate, 1)
	ended("3", once.Duplicate, 0) // was sent
	o.observe(t.Context(), once.Started{})
	var got []sentBy
	for _, payload := range []string{`{"transfer":"1"}`, `{"transfer":"2"}`, `{"transfer":"3"}`, `?`} {
		got = append(got, o.whose("transfer", []byte(payload)))
	}
	got = append(got, o.whose("", []byte(`{"transfer":"2"}`)))
	if want := []sentBy{byAttempt, byDuplicate, byAttempt, byAttempt, byRelay}; !slices.Equal(got, want) {
		t.Errorf("origins = %v, want %v", got, want)
	}
}

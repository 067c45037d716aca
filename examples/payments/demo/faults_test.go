package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	ran := 0
	handler := newFaults(3).into(func(*message.Message) ([]*message.Message, error) {
		ran++
		return []*message.Message{message.NewMessage("receipt", nil)}, nil
	})
	before, after := 0, 0
	for i := range 1000 {
		msg := message.NewMessage(fmt.Sprintf("transfer %d", i), nil)
		ran = 0
		if receipts, err := handler(msg); err == nil {
			if len(receipts) != 1 {
				t.Fatalf("%d receipts, want the handler's", len(receipts))
			}
			continue
		} else if !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		if ran == 0 {
			before++
		} else {
			after++
		}
		if _, err := handler(msg); err != nil {
			t.Errorf("%s failed again: %v", msg.UUID, err)
		}
	}
	if before < 10 || before > 90 || after < 10 || after > 90 {
		t.Errorf("of 1000 transfers %d failed before their writes and %d after, want about 40 each", before, after)
	}
}

func TestFaultsPassErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	handler := newFaults(3).into(func(*message.Message) ([]*message.Message, error) { return nil, broken })
	msg := message.NewMessage("transfer", nil)
	_, _ = handler(msg) // perhaps a fault
	if _, err := handler(msg); !errors.Is(err, broken) {
		t.Errorf("error = %v, want the handler's", err)
	}
}

package once_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// answer returns a handler that returns messages with these ids.
func answer(uuids ...string) message.HandlerFunc {
	return func(*message.Message) ([]*message.Message, error) {
		var out []*message.Message
		for _, uuid := range uuids {
			out = append(out, message.NewMessage(uuid, []byte("payload of "+uuid)))
		}
		return out, nil
	}
}

func TestOutput_ReturnedMessagesAreSentAndMarked(t *testing.T) {
	t.Parallel()
	s := newFake()
	st := setUp(t, s, answer("a", "b", "c"))
	st.deliver(t, "m1")
	st.wantSent(t, "a", "b", "c")
	if got := s.unsent(); got != 3 {
		t.Errorf("%d outputs are stored before the marking, want 3", got)
	}
	st.close(t)
	if got := s.unsent(); got != 0 {
		t.Errorf("%d outputs are left", got)
	}
	st.seen.wantOutcomes(t, once.Processed)
	if e := eventsOf[once.AttemptEnded](st.seen)[0]; e.Outputs != 3 {
		t.Errorf("the event counts %d outputs", e.Outputs)
	}
}

// The router publishes what a handler returns after every middleware has
// returned: the redelivery of a message whose publishing failed is a duplicate.
func TestB01_AnOutputThatFailedIsSentByTheDuplicate(t *testing.T) {
	t.Parallel()
	s := newFake()
	st := setUp(t, s, answer("a", "b", "c"), func(st *stage) {
		n := 0
		st.sink.fail = func(string, *message.Message) error {
			if n++; n == 2 {
				return errSink
			}
			return nil
		}
	})
	st.bus.publish(t, "t", message.NewMessage("m1", nil))
	st.wantSent(t, "a", "b", "c")
	eventually(t, func() error { return sameOutcomes(st, once.Processed, once.Duplicate) })
	if failed := eventsOf[once.OutputFailed](st.seen); len(failed) != 1 || failed[0].UUID != "b" || failed[0].Consumer != "svc/h" || failed[0].Topic != "out" {
		t.Errorf("events %+v", failed)
	}
}

func sameOutcomes(st *stage, want ...once.Outcome) error {
	return sameStrings(strings.Fields(fmt.Sprint(st.seen.outcomes())), strings.Fields(fmt.Sprint(want)))
}

func TestOutput_TheConsumedMessageItself(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	st := setUp(t, newFake(), message.PassthroughHandler, func(st *stage) {
		st.sink.fail = func(_ string, msg *message.Message) error {
			ended <- msg.Context().Err()
			return nil
		}
	})
	st.deliver(t, "m1")
	st.wantSent(t, "m1")
	if err := <-ended; err != nil {
		t.Errorf("it was sent with a context that had ended: %v", err)
	}
}

// While it is sent, a message has the values that the handler gave it and a
// context that has not ended.
func TestOutput_ContextOfASentMessage(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 2)
	st := setUp(t, newFake(), func(msg *message.Message) ([]*message.Message, error) {
		derived := message.NewMessageWithContext(context.WithValue(msg.Context(), ctxKey{}, "derived"), "derived", nil)
		own := message.NewMessageWithContext(context.WithValue(context.Background(), ctxKey{}, "own"), "own", nil)
		return []*message.Message{derived, own}, nil
	}, func(st *stage) {
		st.sink.fail = func(_ string, msg *message.Message) error {
			_, inAttempt := once.Tx(msg.Context())
			switch {
			case msg.Context().Err() != nil:
				errs <- msg.Context().Err()
			case msg.Context().Value(ctxKey{}) != msg.UUID:
				errs <- fmt.Errorf("%s: the value is %v", msg.UUID, msg.Context().Value(ctxKey{}))
			case inAttempt == nil:
				errs <- errors.New("the attempt is in the context")
			case message.HandlerNameFromCtx(msg.Context()) != "h":
				errs <- errors.New("the router's values are lost")
			default:
				errs <- nil
			}
			return nil
		}
	})
	st.deliver(t, "m1")
	for range 2 {
		if err := within(t, errs, "a message is sent"); err != nil {
			t.Error(err)
		}
	}
}

func TestW04_ReturnedMessagesWithoutThePlugin(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	st := prepare(t, s, quick())
	st.router.AddMiddleware(st.guard.Middleware)
	handle := func(msg *message.Message) ([]*message.Message, error) {
		if msg.UUID == "plain" {
			return nil, effectOf(msg)
		}
		return message.Messages{msg}, effectOf(msg)
	}
	st.router.AddHandler("h", "t", st.bus.channel, "out", st.sink, handle)
	st.bus.run(t, st.router)
	st.bus.publish(t, "t", message.NewMessage("m1", nil), message.NewMessage("plain", nil))
	eventually(t, func() error {
		s.wantEffects(t, min(1, st.endings()))
		for _, e := range eventsOf[once.AttemptEnded](st.seen) {
			if e.Outcome == once.Refused && st.endings() == 1 {
				return wantError(e.Err, once.ErrOutputs, "router.AddPlugin(guard.Plugin)")
			}
		}
		return errors.New("not refused, or the handler without outputs does not work")
	})
	if s.unsent() != 0 || len(st.sink.uuids()) != 0 {
		t.Error("something was stored or sent")
	}
}

// wantError checks what an error is and says.
func wantError(err, is error, words ...string) error {
	if !errors.Is(err, is) {
		return fmt.Errorf("%v is not %v", err, is)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("%v does not say %q", err, w)
		}
	}
	return nil
}

func TestOutput_ReturnedByAHandlerWithoutAPublisher(t *testing.T) {
	t.Parallel()
	s := newFake()
	h := newGuard(t, s, quick()).Middleware(answer("a"))
	if _, err := h(deliver(t, "m1", "x")); !once.IsTransient(err) {
		t.Errorf("got %v", err)
	} else if err := wantError(err, once.ErrOutputs, "AddHandler", "guard.Publisher"); err != nil {
		t.Error(err)
	}
	if s.has("svc/h", "m1") {
		t.Error("a claim stays")
	}
}

func TestOutput_BadOnesRollBackAndOddOnesAreSent(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), 10<<20)
	odd := message.NewMessage("odd", []byte{0, 0xff})
	odd.Metadata = message.Metadata{"a\x00\n": "\xff\x1b", "": ""}
	many := make([]*message.Message, 1000)
	for i := range many {
		many[i] = message.NewMessage(fmt.Sprint(i), nil)
	}
	for name, c := range map[string]struct {
		out  []*message.Message
		fail bool
	}{
		"0 bytes":            {[]*message.Message{message.NewMessage("a", nil)}, false},
		"10 MB":              {[]*message.Message{message.NewMessage("a", big)}, false},
		"control characters": {[]*message.Message{odd}, false},
		"no UUID":            {[]*message.Message{message.NewMessage("", nil)}, false},
		"no metadata":        {[]*message.Message{{UUID: "a"}}, false},
		"two with one UUID":  {[]*message.Message{message.NewMessage("a", nil), message.NewMessage("a", []byte("2"))}, false},
		"a thousand":         {many, false},
		"nil":                {[]*message.Message{message.NewMessage("a", nil), nil}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSQLiteFake(t)
			st := setUp(t, s, func(msg *message.Message) ([]*message.Message, error) { return c.out, effectOf(msg) })
			st.bus.publish(t, "t", message.NewMessage("m1", nil))
			if c.fail {
				eventually(t, func() error {
					if n := len(st.seen.outcomes()); n == 0 || st.seen.outcomes()[0] != once.Failed {
						return errors.New("not failed")
					}
					return nil
				})
				s.wantEffects(t, 0)
				return
			}
			eventually(t, func() error { return sameMessages(st.sink.messages(), c.out) })
			s.wantEffects(t, 1)
		})
	}
}

func sameMessages(got, want []*message.Message) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d messages, want %d", len(got), len(want))
	}
	for i, msg := range got {
		if msg.UUID != want[i].UUID || !bytes.Equal(msg.Payload, want[i].Payload) || !maps.Equal(msg.Metadata, want[i].Metadata) {
			return fmt.Errorf("message %d differs", i)
		}
	}
	return nil
}

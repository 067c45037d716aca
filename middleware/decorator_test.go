package once_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// tagging is a publisher decorator of an application.
func tagging(name string) message.PublisherDecorator {
	return message.MessageTransformPublisherDecorator(func(msg *message.Message) {
		msg.Metadata.Set("order", msg.Metadata.Get("order")+name)
	})
}

// The router applies decorators in the opposite order to their comment: the one
// that is added last, which is the guard's, is next to the publisher. So it sees
// what the others made of a message, and marks what really went out.
func TestW20_OrderOfDecorators(t *testing.T) {
	t.Parallel()
	s := newFake()
	st := setUp(t, s, answer("a"), func(st *stage) { st.router.AddPublisherDecorators(tagging("1"), tagging("2")) })
	st.deliver(t, "m1")
	st.wantSent(t, "a")
	if got := st.sink.messages()[0].Metadata.Get("order"); got != "12" {
		t.Errorf("the decorators ran in the order %q", got)
	}
	st.close(t)
	if s.unsent() != 0 {
		t.Error("the output is not marked")
	}
}

func TestW20_ANilPublisherStaysNil(t *testing.T) {
	t.Parallel()
	s := newFake()
	st := setUp(t, s, nil, func(st *stage) {
		st.router.AddHandler("h", "t", st.bus.channel, "", nil, answer())
	})
	st.deliver(t, "m1")
	if err := st.router.Close(); err != nil {
		t.Error(err)
	}
	if p := st.guard.Publisher(nil); p != nil {
		t.Errorf("guard.Publisher(nil) is %v", p)
	}
}

// What is no output of the guard passes the decorator as it came.
func TestDecorator_MessagesOfOthers(t *testing.T) {
	t.Parallel()
	s := newFake()
	add := func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			out, err := next(msg)
			first, last := message.NewMessage("first", nil), message.NewMessage("last", nil)
			return append(append([]*message.Message{first}, out...), last), err
		}
	}
	st := setUp(t, s, answer("a", "b"), func(st *stage) { st.router.AddMiddleware(add) })
	st.deliver(t, "m1")
	st.wantSent(t, "first", "a", "b", "last")
	st.close(t)
	if s.unsent() != 0 {
		t.Error("an output is not marked")
	}
	st.seen.wantOutcomes(t, once.Processed)
}

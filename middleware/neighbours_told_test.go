package once_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

// A chain is looked at by who asks for the transaction in it, and told of once.
func TestChain_OutsideIsLookedAtByTheFirstThatAsks(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	h := middleware.NewIgnoreErrors(nil).Middleware(newGuard(t, s, c).Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if msg.UUID == "m0" {
			return nil, nil
		}
		return nil, effectOf(msg)
	}))
	for i, want := range []int{0, 1, 1} {
		if _, err := h(deliver(t, fmt.Sprintf("m%d", i), "x")); err != nil {
			t.Fatal(err)
		}
		e := eventsOf[once.ChainProblem](seen)
		if len(e) != want {
			t.Errorf("after message %d: %+v", i, e)
		}
		if len(e) > 0 && (e[0].Problem != once.Misplaced || !strings.Contains(e[0].Detail, "IgnoreErrors stands outside") || !strings.Contains(e[0].Fix, "ErrSkip")) {
			t.Errorf("the event is %+v", e[0])
		}
	}
}

// One that is seen when the chain is built is seen again by who asks later.
func TestChain_DirectlyInsideIsToldOnce(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	h := newGuard(t, newSQLiteFake(t), c).Middleware(middleware.NewIgnoreErrors(nil).Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if msg.UUID == "m0" {
			return nil, nil
		}
		return nil, effectOf(msg)
	}))
	for i := range 3 {
		if _, err := h(deliver(t, fmt.Sprintf("m%d", i), "x")); err != nil {
			t.Fatal(err)
		}
		if e := eventsOf[once.ChainProblem](seen); len(e) != 1 {
			t.Errorf("after message %d: %+v", i, e)
		}
	}
}

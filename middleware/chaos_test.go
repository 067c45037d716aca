package once_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// TestChaos delivers a few messages many times at once to handlers that fail in
// every way there is, under contexts that end at any time. Whatever happens:
// each message has its effect once, every attempt is counted once, nothing is
// left behind.
func TestChaos(t *testing.T) {
	t.Parallel()
	const messages, copies = 30, 8
	s, seen := newSQLite(t), &recorder{}
	c := quick()
	c.Observer = seen
	c.Limit = 8
	c.Drain = 5 * time.Millisecond
	g := newGuard(t, s.SQL, c)
	var calm atomic.Bool
	h := handle(g, func(msg *message.Message) error {
		if err := effectOf(msg); err != nil {
			return err
		}
		if calm.Load() {
			return nil
		}
		switch rand.N(8) {
		case 0:
			return errBusiness
		case 1:
			return once.ErrSkip
		case 2:
			panic("boom")
		case 3:
			runtime.Goexit()
		case 4:
			<-msg.Context().Done()
		case 5:
			msg.Nack()
		}
		return nil
	})

	var all sync.WaitGroup
	for i := range messages * copies {
		all.Go(func() {
			defer func() { _ = recover() }()
			ctx, cancel := context.WithTimeout(handlerContext(t, "h", "t"), 2*time.Second)
			defer cancel()
			if rand.N(2) == 0 {
				time.AfterFunc(rand.N(100*time.Millisecond), cancel)
			}
			_ = h(message.NewMessageWithContext(ctx, fmt.Sprint("m", i%messages), nil))
		})
	}
	all.Wait()

	calm.Store(true)
	for i := range messages {
		if err := h(deliver(t, fmt.Sprint("m", i), "")); err != nil {
			t.Error(err)
		}
	}
	s.wantEffects(t, messages)
	counts := map[once.Outcome]int{}
	for _, o := range seen.outcomes() {
		counts[o]++
	}
	if n := len(seen.outcomes()); n != messages*(copies+1) || counts[once.Processed] != messages {
		t.Errorf("%d attempts were counted, want %d: %v", n, messages*(copies+1), counts)
	}
	if n := s.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
}

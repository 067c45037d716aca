package once_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// BenchmarkGuard is the guard alone: a store that does nothing, a payload of
// 1 KiB, the fingerprint on, nobody observing. The message's context can be
// cancelled, as a broker's is.
func BenchmarkGuard(b *testing.B) {
	g := newGuard(b, nopStore{}, once.Config{Service: "bench", PurgeEvery: -1, Observer: once.NopObserver{}})
	h := g.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		_, err := once.Tx(msg.Context())
		return nil, err
	})
	root := handlerContext(b, "h", "t")
	payload := make([]byte, 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		ctx, cancel := context.WithCancel(root)
		msg := message.NewMessageWithContext(ctx, "message-"+strconv.Itoa(i), payload)
		b.StartTimer()
		if _, err := h(msg); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cancel()
		b.StartTimer()
	}
}

// BenchmarkGuardSameMessage is the same without stopping the timer, whose cost
// at this scale is not nothing.
func BenchmarkGuardSameMessage(b *testing.B) {
	g := newGuard(b, nopStore{}, once.Config{Service: "bench", PurgeEvery: -1, Observer: once.NopObserver{}})
	h := g.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		_, err := once.Tx(msg.Context())
		return nil, err
	})
	ctx, cancel := context.WithCancel(handlerContext(b, "h", "t"))
	defer cancel()
	msg := message.NewMessageWithContext(ctx, "8d5bcb3a-8b3f-4a0e-9f5b-0d8ad7c1f3c2", make([]byte, 1024))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h(msg); err != nil {
			b.Fatal(err)
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// nothing is a store that claims without a database.
type nothing struct{ tx sqlx.Tx }

func (n *nothing) Do(ctx context.Context, _ store.Claim, fn store.Func) (store.Result, error) {
	_, err := fn(ctx, &n.tx)
	return store.Result{}, err
}

func (*nothing) Purge(context.Context, store.Purge) (int64, error) { return 0, nil }

// overNothing measures what the guard itself costs: 1 KiB of payload, with its
// fingerprint, without an observer.
func overNothing(out *json.Encoder) error {
	guard, err := once.New(&nothing{}, once.Config{Service: "bench", PurgeEvery: -1, Observer: once.NopObserver{}})
	if err != nil {
		return err
	}
	ctx, err := routed(context.Background())
	if err != nil {
		return err
	}
	handle := guard.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	payload := make([]byte, 1024)
	var failed error
	var nanos []float64
	var allocs int64
	for range 5 {
		r := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				msg := message.Message{UUID: "0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b90", Payload: payload}
				msg.SetContext(ctx)
				if _, err := handle(&msg); err != nil {
					failed = err
				}
			}
		})
		nanos = append(nanos, float64(r.T.Nanoseconds())/float64(r.N))
		allocs = r.AllocsPerOp()
	}
	if failed != nil {
		return failed
	}
	const limit = 3000
	ours := median(nanos)
	return out.Encode(figure{
		Bench: "guard over a store that does nothing, 1 KiB", Ours: round(ours), Unit: "ns",
		Peer: "limit of 3000 ns and 10 allocations", Ratio: round(limit / ours), Want: ">= 1 and allocs <= 10", Allocs: &allocs,
	})
}

func (*nothing) MarkSent(context.Context, ...store.OutputID) error { return nil }

func (*nothing) LeaseUnsent(context.Context, store.Lease) ([]store.Output, error) { return nil, nil }

func (*nothing) Postpone(context.Context, ...store.Failure) error { return nil }

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// nobody is a publisher to which sending costs nothing.
type nobody struct{}

func (nobody) Publish(string, ...*message.Message) error { return nil }
func (nobody) Close() error                              { return nil }

// handwrittenOutbox is the handwritten transaction with an INSERT into an outbox
// table. Nobody drains that table here; ours are sent and deleted meanwhile.
func (d *database) handwrittenOutbox(ctx context.Context, id string, worker int) error {
	return d.insertFirst(ctx, id, worker, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, d.outbox, watermill.NewUUID(), "topic", `{"k":"v"}`, d.payload)
		return err
	})
}

// publishing is the guarded work with one output.
func (d *database) publishing(guard *once.Guard) work {
	pub := guard.Publisher(nobody{})
	handle := guard.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		tx, err := once.Tx(ctx)
		if err != nil {
			return nil, err
		}
		if _, err = tx.ExecContext(ctx, d.update, ctx.Value(workerKey{})); err != nil {
			return nil, err
		}
		out := message.NewMessageWithContext(ctx, watermill.NewUUID(), d.payload)
		out.Metadata.Set("k", "v")
		return nil, pub.Publish("topic", out)
	})
	return func(ctx context.Context, id string, w int) error {
		msg := message.NewMessage(id, d.payload)
		msg.SetContext(context.WithValue(ctx, workerKey{}, w))
		_, err := handle(msg)
		return err
	}
}

// againstHandwrittenOutbox prints the figure of a handler with one output.
func againstHandwrittenOutbox(ctx context.Context, out *json.Encoder, d *database, inFlight, rounds, messages int) error {
	guard, err := once.New(unclosed{d.store}, once.Config{Service: "bench", PurgeEvery: -1, Observer: once.NopObserver{}})
	if err != nil {
		return err
	}
	defer guard.Close(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	names, err := routed(ctx)
	if err != nil {
		return err
	}
	ctx = withValues{ctx, names}
	ours := d.publishing(guard)

	var mine, ratio []float64
	const warmUp = 2
	for r := range rounds + warmUp {
		runs := []func() error{
			func() error { return add(&mine, ctx, ours, ids(messages*inFlight), inFlight) },
			func() error { return add(&ratio, ctx, d.handwrittenOutbox, ids(messages*inFlight), inFlight) },
		}
		if r%2 == 1 {
			runs[0], runs[1] = runs[1], runs[0]
		}
		for _, run := range runs {
			if err := run(); err != nil {
				return err
			}
		}
		ratio[r] /= mine[r]
	}
	return out.Encode(figure{
		Bench: fmt.Sprintf("%s first attempt with one output, %d in flight", d.name, inFlight), Ours: round(median(mine[warmUp:])), Unit: "µs",
		Peer: "handwritten with an outbox", Ratio: round(median(ratio[warmUp:])), Want: ">= 0.95",
	})
}

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

// handwritten is what a team writes without this library: insert first, look
// at the rows affected, do the work, commit. It is what is measured against, so
// it leaves out what the guard does besides.
func (d *database) handwritten(ctx context.Context, id string, worker int) error {
	return d.insertFirst(ctx, id, worker, func(*sqlx.Tx) error { return nil })
}

func (d *database) insertFirst(ctx context.Context, id string, worker int, more func(tx *sqlx.Tx) error) error {
	tx, err := d.db.BeginTxx(ctx, d.options)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	result, err := tx.ExecContext(ctx, d.insert, "bench/handler", id)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, d.update, worker); err != nil {
		return err
	}
	if err := more(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// guarded is the same work in a handler behind the guard.
func (d *database) guarded(guard *once.Guard) work {
	handle := guard.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return nil, err
		}
		_, err = tx.ExecContext(msg.Context(), d.update, msg.Context().Value(workerKey{}))
		return nil, err
	})
	return func(ctx context.Context, id string, w int) error {
		msg := message.NewMessage(id, d.payload)
		msg.SetContext(context.WithValue(ctx, workerKey{}, w))
		_, err := handle(msg)
		return err
	}
}

type workerKey struct{}

// againstHandwritten prints two figures: a first attempt against the
// handwritten one, and a duplicate against a first attempt.
func againstHandwritten(ctx context.Context, out *json.Encoder, d *database, inFlight, rounds, messages int) error {
	guard, err := once.New(d.store, once.Config{Service: "bench", PurgeEvery: -1, Observer: once.NopObserver{}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx) // as a router's: it can be cancelled
	defer stop()
	names, err := routed(ctx)
	if err != nil {
		return err
	}
	ctx = withValues{ctx, names}
	ours := d.guarded(guard)

	var first, ratio, duplicate []float64
	const warmUp = 2
	for r := range rounds + warmUp {
		mine, theirs := ids(messages*inFlight), ids(messages*inFlight)
		runs := []func() error{
			func() error { return add(&first, ctx, ours, mine, inFlight) },
			func() error { return add(&ratio, ctx, d.handwritten, theirs, inFlight) },
		}
		if r%2 == 1 {
			runs[0], runs[1] = runs[1], runs[0]
		}
		runs = append(runs, func() error { return add(&duplicate, ctx, ours, mine, inFlight) })
		for _, run := range runs {
			if err := run(); err != nil {
				return err
			}
		}
		n := len(first) - 1
		ratio[n] /= first[n]
		duplicate[n] = first[n] / duplicate[n]
	}
	name := func(what string) string { return fmt.Sprintf("%s %s, %d in flight", d.name, what, inFlight) }
	if err := out.Encode(figure{
		Bench: name("first attempt"), Ours: round(median(first[warmUp:])), Unit: "µs",
		Peer: "handwritten", Ratio: round(median(ratio[warmUp:])), Want: ">= " + d.want,
	}); err != nil {
		return err
	}
	return out.Encode(figure{
		Bench: name("duplicate"), Ours: round(median(first[warmUp:]) / median(duplicate[warmUp:])), Unit: "µs",
		Peer: "a first attempt", Ratio: round(median(duplicate[warmUp:])), Want: ">= 2",
	})
}

// add appends the microseconds for one message.
func add(to *[]float64, ctx context.Context, f work, ids []string, inFlight int) error { //nolint:revive // ctx goes with f
	took, err := timed(ctx, f, ids, inFlight)
	*to = append(*to, float64(took.Nanoseconds())/1000)
	return err
}

func ids(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = watermill.NewUUID()
	}
	return ids
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// guarding is what a consumer does against duplicates. Its text is its name in
// the table.
type guarding string

const (
	byOnce         guarding = "watermill-once"
	byNothing      guarding = "no dedup"
	byDeduplicator guarding = "Watermill's Deduplicator"
)

var guardings = []guarding{byOnce, byNothing, byDeduplicator}

// dedupWindow is how long Watermill's Deduplicator remembers: longer than any
// run takes, so that forgetting is not what it fails by.
const dedupWindow = time.Hour

// The relay is in a hurry here: the defaults, 30 s and more, are longer than the
// whole demo.
const (
	relayEvery = 200 * time.Millisecond
	relayAge   = 500 * time.Millisecond
	relayLease = 2 * time.Second
)

// protect puts what the assignment asks for around the handler.
func (c *consumer) protect(router *message.Router, handler message.HandlerFunc) (message.HandlerFunc, error) {
	switch c.assignment.Guarding {
	case byOnce:
		return handler, c.addGuard(router)
	case byNothing:
		return inOwnTransaction(c.store.DB(), handler), nil
	case byDeduplicator:
		return inOwnTransaction(c.store.DB(), handler), c.addDeduplicator(router)
	default:
		return nil, fmt.Errorf("what is guarding %q?", c.assignment.Guarding)
	}
}

// addGuard is all that this library needs.
func (c *consumer) addGuard(router *message.Router) error {
	guard, err := once.New(c.store, once.Config{
		Service:    "payments",
		RelayEvery: relayEvery,
		RelayAge:   relayAge,
		RelayLease: relayLease,
		Observer: once.Observers(once.SlogObserver(nil),
			once.ObserverFunc(c.countDuplicate), once.ObserverFunc(c.origins.observe)),
	})
	if err != nil {
		return err
	}
	c.guard = guard
	router.AddPlugin(guard.Plugin)
	return nil
}

func (c *consumer) countDuplicate(_ context.Context, e once.Event) {
	if ended, ok := e.(once.AttemptEnded); ok && ended.Outcome == once.Duplicate {
		c.reports.duplicate()
	}
}

// addDeduplicator is Watermill's own dedup as its documentation has it, with
// the message's UUID for a key: the default key is a checksum of the payload,
// which takes two equal payments for one.
func (c *consumer) addDeduplicator(router *message.Router) error {
	memory, err := middleware.NewMapExpiringKeyRepository(dedupWindow)
	if err != nil {
		return err
	}
	dedup := &middleware.Deduplicator{
		KeyFactory: func(msg *message.Message) (string, error) { return msg.UUID, nil },
		Repository: countingRepository{memory, c.reports},
	}
	router.AddMiddleware(dedup.Middleware)
	return nil
}

// countingRepository reports what the Deduplicator drops.
type countingRepository struct {
	middleware.ExpiringKeyRepository
	reports *reporter
}

func (r countingRepository) IsDuplicate(ctx context.Context, key string) (bool, error) {
	duplicate, err := r.ExpiringKeyRepository.IsDuplicate(ctx, key)
	if duplicate {
		r.reports.duplicate()
	}
	return duplicate, err
}

// inOwnTransaction is what careful handlers without this library do: one
// transaction a message, committed before the receipt is sent and before the ack. once.WithTx hands it to the
// handler, which is thus the same in all three runs.
func inOwnTransaction(db *sqlx.DB, next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		tx, err := db.BeginTxx(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
		msg.SetContext(once.WithTx(ctx, tx))
		receipts, err := next(msg)
		if err != nil {
			return nil, err
		}
		if err := tx.Commit(); err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		return receipts, nil
	}
}

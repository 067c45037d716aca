package once_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

const id = "0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b90"

// failingFirst runs fail on the first attempts, then only the effect.
func failingFirst(times int, fail func(msg *message.Message) error) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		if err := writeEffect(msg); err != nil {
			return err
		}
		if times--; times >= 0 {
			return fail(msg)
		}
		return nil
	}
}

func swallowErrors(msg *message.Message) error {
	tx, err := once.Tx(msg.Context())
	if err != nil {
		return err
	}
	_, _ = tx.ExecContext(msg.Context(), `INSERT INTO no_such_table VALUES (1)`)
	_, _ = tx.ExecContext(msg.Context(), `INSERT INTO effects (id) VALUES ('leaked')`)
	return nil
}

// TestOutcomes is design.md's table, through a real router, on every store:
// what the handler does on its first attempts, and what is left when the broker
// got its ack.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name     string
		handle   func() message.NoPublishHandlerFunc
		change   func(*once.Config)
		outside  []message.HandlerMiddleware
		copies   int // delivered one after the other; 0 means one
		effects  int
		claims   int
		outcomes []once.Outcome
	}{
		{
			name:    "first attempt",
			handle:  func() message.NoPublishHandlerFunc { return writeEffect },
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Processed},
		},
		{
			name:   "duplicate",
			handle: func() message.NoPublishHandlerFunc { return writeEffect },
			copies: 3, effects: 1, claims: 1, outcomes: []once.Outcome{once.Processed, once.Duplicate, once.Duplicate},
		},
		{
			name: "B12 an error rolls back and the redelivery runs",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(2, func(*message.Message) error { return errors.New("not today") })
			},
			copies: 2, effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Failed, once.Processed, once.Duplicate},
		},
		{
			name: "ErrSkip",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(9, func(*message.Message) error { return once.ErrSkip })
			},
			outcomes: []once.Outcome{once.Skipped},
		},
		{
			name:     "When",
			handle:   func() message.NoPublishHandlerFunc { return writeEffect },
			change:   func(c *once.Config) { c.When = func(*message.Message) bool { return false } },
			outcomes: []once.Outcome{once.Skipped},
		},
		{
			name: "B36 panic",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(3, func(*message.Message) error { panic("at the disco") })
			},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Panicked, once.Panicked, once.Panicked, once.Processed},
		},
		{
			name: "W02 Goexit",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(2, func(*message.Message) error { runtime.Goexit(); return nil })
			},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Exited, once.Exited, once.Processed},
		},
		{
			name:    "B27 a failed statement is swallowed",
			handle:  func() message.NoPublishHandlerFunc { return failingFirst(1, swallowErrors) },
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Processed},
		},
		{
			name: "a failed statement is undone",
			handle: func() message.NoPublishHandlerFunc {
				return func(msg *message.Message) error {
					_ = once.Savepoint(msg.Context(), func(ctx context.Context) error {
						tx, err := once.Tx(ctx)
						if err != nil {
							return err
						}
						_, err = tx.ExecContext(ctx, `INSERT INTO no_such_table VALUES (1)`)
						return err
					})
					return writeEffect(msg)
				}
			},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Processed},
		},
		{
			name: "the handler commits",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(1, func(msg *message.Message) error {
					tx, err := once.Tx(msg.Context())
					if err != nil {
						return err
					}
					_ = tx.Commit()
					return nil
				})
			},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Processed},
		},
		{
			name: "the handler sends COMMIT",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(1, func(msg *message.Message) error {
					tx, err := once.Tx(msg.Context())
					if err != nil {
						return err
					}
					_, _ = tx.ExecContext(msg.Context(), "/* done */ COMMIT")
					return nil
				})
			},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Processed},
		},
		{
			name: "the handler rolls back",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(1, func(msg *message.Message) error {
					tx, err := once.Tx(msg.Context())
					if err != nil {
						return err
					}
					return tx.Rollback()
				})
			},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Processed},
		},
		{
			name: "a deadline passes",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(1, func(msg *message.Message) error { <-msg.Context().Done(); return nil })
			},
			outside: []message.HandlerMiddleware{wmw.Timeout(3 * time.Second)},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Processed},
		},
		{
			name: "a router that retries outside (B31)",
			handle: func() message.NoPublishHandlerFunc {
				return failingFirst(2, func(*message.Message) error { return errors.New("not today") })
			},
			outside: []message.HandlerMiddleware{wmw.Retry{MaxRetries: 3, InitialInterval: time.Millisecond}.Middleware},
			effects: 1, claims: 1, outcomes: []once.Outcome{once.Failed, once.Failed, once.Processed},
		},
	}
	for _, kind := range storeKinds() {
		for _, row := range rows {
			t.Run(kind.name+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, kind.open(t), row.change)
				h.run(row.handle(), row.outside...)
				for range max(1, row.copies) {
					h.deliver(id, "payload")
				}
				h.want(row.effects, row.claims, row.outcomes...)
			})
		}
	}
}

// Permanent errors end among the dead letters, with the reason, and the next
// message is processed.
func TestPermanentErrorsAreDeadLettered(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kind.open(t), nil)
			h.run(writeEffect)
			if reason := h.deadLetter(" ", "B17 a blank id"); !strings.Contains(reason, once.ErrNoKey.Error()) {
				t.Errorf("the reason is %q", reason)
			}
			h.deliver(id, "one payload")
			if reason := h.deadLetter(id, "C25 another payload"); !strings.Contains(reason, store.ErrKeyReused.Error()) && !strings.Contains(reason, "another payload") {
				t.Errorf("the reason is %q", reason)
			}
			h.deliver("next", "payload")
			h.want(2, 2, once.NoKey, once.Processed, once.Reused, once.Processed)
		})
	}
}

// W11: an attempt inside an attempt is refused at once instead of waiting for
// itself.
func TestW11_AnAttemptInsideAnAttempt(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kind.open(t), nil)
			inner := make(chan error, 1)
			h.run(func(msg *message.Message) error {
				_, err := h.guard.Do(msg.Context(), "inner", "key", func(context.Context, *sqlx.Tx) error { return nil })
				inner <- err
				return writeEffect(msg)
			})
			h.deliver(id, "payload")
			if err := <-inner; !errors.Is(err, store.ErrNested) {
				t.Errorf("Do inside a handler: %v, want ErrNested", err)
			}
			var got int
			if err := h.store.DB().Get(&got, "SELECT COUNT(*) FROM effects"); err != nil || got != 1 {
				t.Errorf("%d effects, %v", got, err)
			}
		})
	}
}

// A commit that the database refuses is no ack, and the handler's error.
func TestACommitThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		if kind.deferred == "" {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kind.open(t), nil)
			h.exec(kind.deferred)
			h.run(failingFirst(1, func(msg *message.Message) error {
				tx, err := once.Tx(msg.Context())
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(msg.Context(), `INSERT INTO late (id, parent) VALUES (1, 2)`)
				return err
			}))
			h.deliver(id, "payload")
			h.want(1, 1, once.Failed, once.Processed)
		})
	}
}

package once_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestAfterCommit_RunsInOrderAfterTheCommit(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	var order []string
	msg := deliver(t, "m1", "x")
	h := handle(newGuard(t, s, quick()), func(msg *message.Message) error {
		for _, name := range []string{"a", "b"} {
			err := once.AfterCommit(msg.Context(), func(ctx context.Context) {
				order = append(order, name)
				if !s.has("svc/h", "m1") {
					t.Error("it is not committed yet")
				}
				if _, err := once.Tx(ctx); !errors.Is(err, once.ErrNoTx) {
					t.Errorf("the hook has a transaction: %v", err)
				}
				if message.HandlerNameFromCtx(ctx) != "h" || ctx.Err() != nil {
					t.Error("the hook's context is not the message's")
				}
			})
			if err != nil {
				return err
			}
		}
		return effectOf(msg)
	})
	for range 2 { // the second time it is a duplicate
		if err := h(msg); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(order, []string{"a", "b"}) {
		t.Errorf("the order is %v", order)
	}
}

func TestAfterCommit_NotAfterARollback(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"error": errBusiness, "skip": once.ErrSkip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_ = inAttempt(t, newSQLiteFake(t), func(ctx context.Context) error {
				return errors.Join(once.AfterCommit(ctx, func(context.Context) { t.Error("the hook ran") }), end)
			})
		})
	}
}

func TestAfterCommit_APanicIsAnEventAndTheOthersRun(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	ran := false
	h := handle(newGuard(t, newFake(), c), func(msg *message.Message) error {
		return errors.Join(
			once.AfterCommit(msg.Context(), func(context.Context) { _ = explode() }),
			once.AfterCommit(msg.Context(), func(context.Context) { ran = true }))
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	if !ran {
		t.Error("the second hook did not run")
	}
	e := eventsOf[once.HookFailed](seen)
	if len(e) != 1 || e[0].Panic != any(errBoom) || e[0].Key != "m1" || !strings.Contains(string(e[0].Stack), "explode") {
		t.Errorf("events are %+v", e)
	}
	seen.wantOutcomes(t, once.Processed)
}

func TestAfterCommit_MayUseDoWithOneSlot(t *testing.T) {
	t.Parallel()
	s := newFake()
	c := quick()
	c.Limit = 1
	g := newGuard(t, s, c)
	h := handle(g, func(msg *message.Message) error {
		return once.AfterCommit(msg.Context(), func(ctx context.Context) {
			if _, err := g.Do(ctx, "hook", "k", func(context.Context, *sqlx.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	if !s.has("svc/hook", "k") {
		t.Error("the hook's claim is missing")
	}
}

func TestAfterCommit_OutsideAnAttempt(t *testing.T) {
	t.Parallel()
	if err := once.AfterCommit(context.Background(), func(context.Context) {}); !errors.Is(err, once.ErrNoTx) {
		t.Errorf("got %v", err)
	}
	_ = inAttempt(t, newFake(), func(ctx context.Context) error {
		if once.AfterCommit(ctx, nil) == nil {
			t.Error("nil is taken")
		}
		return nil
	})
}

type storeClaim = store.Claim

var errDown = store.ErrUnavailable

func containsAll(s string, words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
}

package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

var errBusiness = errors.New("no money")

// row is one situation of the outcome table, tried with one message.
type row struct {
	store   func(*fakeStore)
	config  func(*once.Config)
	ctx     func(context.Context) (context.Context, context.CancelFunc)
	handler message.NoPublishHandlerFunc

	outcome once.Outcome
	ran     bool
	effects int
	claimed bool
	is      error // nil: acknowledged
	class   store.Class
}

func (r row) try(t *testing.T) {
	t.Helper()
	s := newSQLiteFake(t)
	if r.store != nil {
		r.store(s)
	}
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	c.Wait = 20 * time.Millisecond
	if r.config != nil {
		r.config(&c)
	}
	g := newGuard(t, s, c)
	var ran atomic.Bool
	h := handle(g, func(msg *message.Message) error {
		ran.Store(true)
		return r.handler(msg)
	})
	msg := deliver(t, "m1", `{"sum":1}`)
	if r.ctx != nil {
		ctx, cancel := r.ctx(msg.Context())
		defer cancel()
		msg.SetContext(ctx)
	}
	before := msg.Context()

	err := h(msg)

	if !errors.Is(err, r.is) || (err == nil) != (r.is == nil) {
		t.Errorf("the error is %v, want %v", err, r.is)
	}
	if err != nil {
		if got := store.ClassOf(err); got != r.class {
			t.Errorf("the class is %v, want %v (%v)", got, r.class, err)
		}
		if text := err.Error(); !strings.Contains(text, `consumer "svc/h"`) || strings.Count(text, `"m1"`) < 1 && r.outcome != once.NoKey {
			t.Errorf("the error does not name consumer and key: %s", text)
		}
	}
	if ran.Load() != r.ran {
		t.Errorf("the handler ran: %v, want %v", ran.Load(), r.ran)
	}
	s.wantEffects(t, r.effects)
	if got := s.has("svc/h", "m1"); got != r.claimed {
		t.Errorf("claimed: %v, want %v", got, r.claimed)
	}
	if msg.Context() != before {
		t.Error("the message's context is not what it was")
	}
	seen.wantOutcomes(t, r.outcome)
}

func failing(err error) func(*fakeStore) {
	return func(s *fakeStore) {
		s.before = func(context.Context, store.Claim) error { return err }
	}
}

func TestOutcome_FirstAttemptCommits(t *testing.T) {
	t.Parallel()
	row{handler: effectOf, outcome: once.Processed, ran: true, effects: 1, claimed: true}.try(t)
}

func TestOutcome_HandlerError(t *testing.T) {
	t.Parallel()
	row{
		handler: func(msg *message.Message) error { return errors.Join(effectOf(msg), errBusiness) },
		outcome: once.Failed, ran: true, is: errBusiness, class: store.ClassHandler,
	}.try(t)
}

func TestOutcome_HandlerErrorPermanent(t *testing.T) {
	t.Parallel()
	row{
		handler: func(*message.Message) error { return fmt.Errorf("charge: %w", once.Permanent(errBusiness)) },
		outcome: once.Failed, ran: true, is: errBusiness, class: store.ClassPermanent,
	}.try(t)
}

func TestW10_ErrSkipLeavesNoClaim(t *testing.T) {
	t.Parallel()
	row{
		handler: func(msg *message.Message) error { return errors.Join(effectOf(msg), once.ErrSkip) },
		outcome: once.Skipped, ran: true,
	}.try(t)
}

func TestOutcome_SkipDoesNotHideADeadlock(t *testing.T) {
	t.Parallel()
	deadlock := store.WithClass(store.ClassTransient, errors.New("deadlock"))
	row{
		handler: func(*message.Message) error { return fmt.Errorf("%w: %w", once.ErrSkip, deadlock) },
		outcome: once.RolledBack, ran: true, is: deadlock, class: store.ClassTransient,
	}.try(t)
}

func TestW10_WhenAsksNoStore(t *testing.T) {
	t.Parallel()
	row{
		config:  func(c *once.Config) { c.When = func(*message.Message) bool { return false } },
		store:   failing(errors.New("the store was asked")),
		outcome: once.Skipped,
	}.try(t)
}

func TestOutcome_Duplicate(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, c), effectOf)
	for range 3 {
		if err := h(deliver(t, "m1", "x")); err != nil {
			t.Fatal(err)
		}
	}
	s.wantEffects(t, 1)
	seen.wantOutcomes(t, once.Processed, once.Duplicate, once.Duplicate)
	if e := eventsOf[once.AttemptEnded](seen)[1]; e.ClaimedAt.IsZero() || e.Age <= 0 {
		t.Errorf("the duplicate has no age: %+v", e)
	}
}

func TestOutcome_CopyInFlightCommits(t *testing.T) {
	t.Parallel()
	testCopyInFlight(t, nil, once.Duplicate, 1)
}

func TestOutcome_CopyInFlightRollsBack(t *testing.T) {
	t.Parallel()
	testCopyInFlight(t, errBusiness, once.Processed, 2)
}

func testCopyInFlight(t *testing.T, first error, second once.Outcome, runs int32) {
	t.Helper()
	ctx := handlerContext(t, "h", "t")
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		c := quick()
		c.Observer = seen
		g := newGuard(t, newFake(), c)
		var n atomic.Int32
		h := handle(g, func(msg *message.Message) error {
			if n.Add(1) > 1 {
				return nil
			}
			elapse(time.Second)
			return first
		})
		done := make(chan error)
		go func() { done <- h(message.NewMessageWithContext(ctx, "m1", nil)) }()
		synctest.Wait()
		if err := h(message.NewMessageWithContext(ctx, "m1", nil)); err != nil {
			t.Errorf("the copy: %v", err)
		}
		if err := <-done; !errors.Is(err, first) {
			t.Errorf("the first: %v", err)
		}
		if n.Load() != runs {
			t.Errorf("the handler ran %d times, want %d", n.Load(), runs)
		}
		// The first one's back-off is after the copy's end.
		if got := seen.outcomes(); !slices.Contains(got, second) || len(got) != 2 {
			t.Errorf("outcomes %v, want the second %v", got, second)
		}
	})
}

func TestOutcome_CopyInFlightTooLong(t *testing.T) {
	t.Parallel()
	row{
		store:   func(s *fakeStore) { s.busy[fakeKey{"svc/h", "m1"}] = make(chan struct{}) },
		outcome: once.InFlight, is: store.ErrInFlight, class: store.ClassTransient,
	}.try(t)
}

func TestOutcome_StoreUnavailable(t *testing.T) {
	t.Parallel()
	row{
		store:   failing(fmt.Errorf("%w: refused", store.ErrUnavailable)),
		outcome: once.Unavailable, is: store.ErrUnavailable, class: store.ClassTransient,
	}.try(t)
}

func TestOutcome_UnknownErrorOfTheStoreIsTransient(t *testing.T) {
	t.Parallel()
	odd := errors.New("something odd")
	row{store: failing(odd), outcome: once.Unavailable, is: odd, class: store.ClassTransient}.try(t)
}

func TestOutcome_ClaimThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	row{store: failing(store.ErrTooLarge), outcome: once.Refused, is: store.ErrTooLarge, class: store.ClassPermanent}.try(t)
}

func TestOutcome_NoKey(t *testing.T) {
	t.Parallel()
	row{
		config:  func(c *once.Config) { c.Key = once.Metadata("id") },
		store:   failing(errors.New("the store was asked")),
		outcome: once.NoKey, is: once.ErrNoKey, class: store.ClassPermanent,
	}.try(t)
}

func TestOutcome_KeyReused(t *testing.T) {
	t.Parallel()
	row{
		store: func(s *fakeStore) {
			s.claims[fakeKey{"svc/h", "m1"}] = fakeClaim{fingerprint: "other", at: time.Now()}
		},
		outcome: once.Reused, claimed: true, is: store.ErrKeyReused, class: store.ClassPermanent,
	}.try(t)
}

func TestOutcome_HandlersKeyReusedIsItsOwn(t *testing.T) {
	t.Parallel()
	row{
		config:  func(c *once.Config) { c.FingerprintPolicy = once.FingerprintWarn },
		handler: func(*message.Message) error { return &store.KeyReusedError{} },
		outcome: once.Failed, ran: true, is: store.ErrKeyReused, class: store.ClassPermanent,
	}.try(t)
}

func TestB10_HandlersUniqueViolationIsNoDuplicate(t *testing.T) {
	t.Parallel()
	row{
		handler: func(msg *message.Message) error {
			tx, err := once.Tx(msg.Context())
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(msg.Context(), `CREATE UNIQUE INDEX u ON effects (id); INSERT INTO effects (id) VALUES ('a'), ('a')`)
			if err == nil {
				return errors.New("the constraint did not fire")
			}
			return fmt.Errorf("%w: %w", errBusiness, err)
		},
		outcome: once.Failed, ran: true, is: errBusiness, class: store.ClassHandler,
	}.try(t)
}

func TestOutcome_CommitRefused(t *testing.T) {
	t.Parallel()
	row{
		store:   func(s *fakeStore) { s.commit = func() error { return store.ErrCommitRefused } },
		handler: effectOf,
		outcome: once.Failed, ran: true, is: store.ErrCommitRefused, class: store.ClassHandler,
	}.try(t)
}

func TestC05_RefusedAtCommitIsTransientAndRunsNoHook(t *testing.T) {
	t.Parallel()
	refused := store.WithClass(store.ClassTransient, fmt.Errorf("%w: 1062", store.ErrCommitRefused))
	row{
		store: func(s *fakeStore) { s.commit = func() error { return refused } },
		handler: func(msg *message.Message) error {
			return errors.Join(effectOf(msg), once.AfterCommit(msg.Context(), func(context.Context) { t.Error("the hook ran") }))
		},
		outcome: once.RolledBack, ran: true, is: store.ErrCommitRefused, class: store.ClassTransient,
	}.try(t)
}

func TestOutcome_CommitUnknown(t *testing.T) {
	t.Parallel()
	row{
		store: func(s *fakeStore) { s.commit = func() error { return errCommittedAnyway } },
		handler: func(msg *message.Message) error {
			return errors.Join(effectOf(msg), once.AfterCommit(msg.Context(), func(context.Context) { t.Error("the hook ran") }))
		},
		outcome: once.CommitUnknown, ran: true, effects: 1, claimed: true, is: store.ErrCommitUnknown, class: store.ClassTransient,
	}.try(t)
}

func TestOutcome_CommitUnknownThenDuplicate(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	s.commit = func() error { s.commit = nil; return errCommittedAnyway }
	h := handle(newGuard(t, s, quick()), effectOf)
	if err := h(deliver(t, "m1", "x")); !errors.Is(err, store.ErrCommitUnknown) {
		t.Fatalf("got %v", err)
	}
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
}

func TestOutcome_DatabaseFaultWhateverTheHandlerSays(t *testing.T) {
	t.Parallel()
	deadlock := store.WithClass(store.ClassTransient, errors.New("deadlock"))
	row{
		handler: func(*message.Message) error { return deadlock },
		outcome: once.RolledBack, ran: true, is: deadlock, class: store.ClassTransient,
	}.try(t)
}

func TestOutcome_CancelledBeforeTheHandler(t *testing.T) {
	t.Parallel()
	row{
		ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
		outcome: once.Cancelled, is: context.Canceled, class: store.ClassTransient,
	}.try(t)
}

func TestOutcome_DeadlineWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	row{
		ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		handler: func(msg *message.Message) error {
			err := effectOf(msg)
			<-msg.Context().Done()
			return err // nil: the handler does not look at its context
		},
		outcome: once.Failed, ran: true, is: context.DeadlineExceeded, class: store.ClassHandler,
	}.try(t)
}

func TestOutcome_DeadlineOfTheHandlersOwn(t *testing.T) {
	t.Parallel()
	row{
		handler: func(msg *message.Message) error {
			ctx, cancel := context.WithTimeout(msg.Context(), time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		},
		outcome: once.Failed, ran: true, is: context.DeadlineExceeded, class: store.ClassHandler,
	}.try(t)
}

func TestOutcome_OutputsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	h := newGuard(t, s, quick()).Middleware(func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{msg.Copy()}, effectOf(msg)
	})
	out, err := h(deliver(t, "m1", "x"))
	if out != nil || !errors.Is(err, once.ErrOutputs) || !once.IsTransient(err) {
		t.Errorf("got %v, %v", out, err)
	}
	s.wantEffects(t, 0)
}

func TestOutcome_NackedByTheHandlerIsNotCommitted(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, quick()), func(msg *message.Message) error {
		msg.Nack()
		return effectOf(msg)
	})
	if err := h(deliver(t, "m1", "x")); err == nil || !strings.Contains(err.Error(), "nacked") {
		t.Errorf("got %v", err)
	}
	s.wantEffects(t, 0)
}

func TestOutcome_AckedByTheHandlerIsTold(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, c), func(msg *message.Message) error {
		msg.Ack()
		return effectOf(msg)
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
	if e := eventsOf[once.ChainProblem](seen); len(e) != 1 || e[0].Problem != once.SettledInside {
		t.Errorf("problems are %+v", e)
	}
}

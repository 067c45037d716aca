package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

func TestB37_TxNeverFallsBack(t *testing.T) {
	t.Parallel()
	if tx, err := once.Tx(context.Background()); tx != nil || !errors.Is(err, once.ErrNoTx) {
		t.Errorf("got %v, %v", tx, err)
	}
	var kept context.Context
	h := handle(newGuard(t, newFake(), quick()), func(msg *message.Message) error {
		kept = msg.Context() //nolint:fatcontext // kept on purpose
		_, err := once.Tx(kept)
		return err
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	if tx, err := once.Tx(kept); tx != nil || !errors.Is(err, once.ErrNoTx) {
		t.Errorf("a context that was kept still has the transaction: %v, %v", tx, err)
	}
	if kept.Err() == nil {
		t.Error("a context that was kept has not ended")
	}
}

func TestB37_UnusedTransactionIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler message.NoPublishHandlerFunc
		store   bool // says that it was not used
		told    int
	}{
		"never asked":       {nothing, false, 1},
		"asked, used":       {effectOf, false, 0},
		"asked, never used": {func(msg *message.Message) error { _, err := once.Tx(msg.Context()); return err }, true, 1},
		"failed":            {func(*message.Message) error { return errBusiness }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSQLiteFake(t)
			s.unused = c.store
			seen := &recorder{}
			config := quick()
			config.Observer = seen
			_ = handle(newGuard(t, s, config), c.handler)(deliver(t, "m1", "x"))
			if got := len(eventsOf[once.TxUnused](seen)); got != c.told {
				t.Errorf("%d events, want %d", got, c.told)
			}
		})
	}
}

func TestWithTx_TestsAHandlerWithoutAGuard(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	tx := db.MustBegin()
	msg := message.NewMessage("m1", nil)
	msg.SetContext(once.WithTx(context.Background(), tx))
	err := once.Savepoint(msg.Context(), func(context.Context) error { return effectOf(msg) })
	if err != nil {
		t.Fatal(err)
	}
	if err := once.AfterCommit(msg.Context(), func(context.Context) { t.Error("a hook ran without a guard") }); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	(&fakeStore{db: db}).wantEffects(t, 1)
}

// failOnce fails the first time, then writes through the transaction of its
// context.
func failOnce() message.HandlerFunc {
	n := 0
	return func(msg *message.Message) ([]*message.Message, error) {
		if err := effectOf(msg); err != nil {
			return nil, err
		}
		if n++; n == 1 {
			return nil, errBusiness
		}
		return nil, nil
	}
}

func TestB31_RetryOutsideGetsAFreshTransaction(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	retry := middleware.Retry{MaxRetries: 2, Logger: watermill.NopLogger{}}
	msg := deliver(t, "m1", "x")
	if _, err := retry.Middleware(newGuard(t, s, quick()).Middleware(failOnce()))(msg); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
	if _, commits, rollbacks := s.counts(); commits != 1 || rollbacks != 1 {
		t.Errorf("%d commits, %d rollbacks", commits, rollbacks)
	}
	if _, err := once.Tx(msg.Context()); !errors.Is(err, once.ErrNoTx) {
		t.Errorf("the message still has a transaction: %v", err)
	}
}

func TestB12_AFailedAttemptIsNoDuplicate(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, c).Plugin)
	n, done := 0, make(chan struct{})
	r.AddConsumerHandler("h", "t", b.channel, func(msg *message.Message) error {
		if err := effectOf(msg); err != nil {
			return err
		}
		if n++; n < 3 {
			return errBusiness
		}
		return once.AfterCommit(msg.Context(), func(context.Context) { close(done) })
	})
	b.run(t, r)
	b.publish(t, "t", message.NewMessage("m1", []byte("same")))
	within(t, done, "the third delivery")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
	seen.wantOutcomes(t, once.Failed, once.Failed, once.Processed)
}

func TestB12_EqualPayloadsUnderOtherIdsAreBothProcessed(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, quick()), effectOf)
	for _, id := range []string{"a", "b"} {
		if err := h(deliver(t, id, "same")); err != nil {
			t.Error(err)
		}
	}
	s.wantEffects(t, 2)
}

func TestB11_NothingIsSeenBeforeTheCommit(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	down := true
	s.before = func(context.Context, storeClaim) error {
		if down {
			return errDown
		}
		return nil
	}
	h := newGuard(t, s, quick()).Middleware(failOnce())
	if _, err := h(deliver(t, "m1", "x")); !once.IsTransient(err) {
		t.Fatalf("store down: %v", err)
	}
	down = false
	if _, err := h(deliver(t, "m1", "x")); !errors.Is(err, errBusiness) {
		t.Fatalf("handler fails: %v", err)
	}
	if _, err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
}

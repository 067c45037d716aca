package once_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	pkgerrors "github.com/pkg/errors"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestW08_PoisonTakesOnlyWhatIsTheMessagesFault(t *testing.T) {
	t.Parallel()
	plain := errors.New("no money")
	for name, c := range map[string]struct {
		err    error
		poison bool
	}{
		"nil":                     {nil, false},
		"handler":                 {plain, true},
		"permanent":               {once.Permanent(plain), true},
		"no key":                  {store.WithClass(store.ClassPermanent, once.ErrNoKey), true},
		"key reused":              {&store.KeyReusedError{}, true},
		"deadline":                {context.DeadlineExceeded, true},
		"cancelled":               {context.Canceled, false},
		"unavailable":             {store.ErrUnavailable, false},
		"read-only":               {store.ErrReadOnly, false},
		"schema":                  {store.ErrSchema, false},
		"in flight":               {store.ErrInFlight, false},
		"unknown":                 {store.ErrCommitUnknown, false},
		"transient":               {store.WithClass(store.ClassTransient, plain), false},
		"closed":                  {store.WithClass(store.ClassTransient, once.ErrClosed), false},
		"permanent and cancelled": {once.Permanent(context.Canceled), false},
	} {
		wrap := map[string]func(error) error{
			"as it is":   func(err error) error { return err },
			"fmt":        func(err error) error { return fmt.Errorf("a: %w", err) },
			"pkg/errors": func(err error) error { return pkgerrors.Wrap(err, "a") },
			"joined":     func(err error) error { return errors.Join(err, errors.New("publish failed")) },
			"joined 2nd": func(err error) error { return errors.Join(errors.New("publish failed"), err) },
			"recovered": func(err error) error {
				return pkgerrors.WithStack(middleware.RecoveredPanicError{V: err})
			},
			"recovered and wrapped": func(err error) error {
				return fmt.Errorf("b: %w", middleware.RecoveredPanicError{V: fmt.Errorf("a: %w", err)})
			},
		}
		for how, wrap := range wrap {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				err := c.err
				if err != nil {
					err = wrap(err)
				}
				if got := once.Poison(err); got != c.poison {
					t.Errorf("Poison(%v) is %v", err, got)
				}
			})
		}
	}
}

func TestW08_PoisonTakesAPanicThatIsNoError(t *testing.T) {
	t.Parallel()
	if !once.Poison(pkgerrors.WithStack(middleware.RecoveredPanicError{V: "boom"})) {
		t.Error("a panic is not poison")
	}
}

// chainOf builds what design.md recommends around the guard.
func chainOf(t *testing.T, g *once.Guard, pub message.Publisher, h message.HandlerFunc) message.HandlerFunc {
	t.Helper()
	poison, err := middleware.PoisonQueueWithFilter(pub, "dead", once.Poison)
	if err != nil {
		t.Fatal(err)
	}
	return middleware.Recoverer(poison(middleware.Recoverer(g.Middleware(h))))
}

type deadLetters struct{ msgs []*message.Message }

func (d *deadLetters) Publish(_ string, msgs ...*message.Message) error {
	d.msgs = append(d.msgs, msgs...)
	return nil
}
func (*deadLetters) Close() error { return nil }

func TestW08_AnOutagePoisonsNothing(t *testing.T) {
	t.Parallel()
	s := newFake()
	down := true
	s.before = func(context.Context, store.Claim) error {
		if down {
			return store.ErrUnavailable
		}
		return nil
	}
	var dead deadLetters
	h := chainOf(t, newGuard(t, s, quick()), &dead, func(*message.Message) ([]*message.Message, error) { return nil, nil })
	for range 3 {
		if _, err := h(deliver(t, "m1", "x")); !once.IsTransient(err) {
			t.Errorf("got %v", err)
		}
	}
	down = false
	if _, err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
	if len(dead.msgs) > 0 {
		t.Errorf("%d dead letters", len(dead.msgs))
	}
}

func TestW01_B56_APanicAndAPermanentErrorAreDeadLetteredWithoutATrace(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"panic":     func() error { panic("boom") },
		"permanent": func() error { return once.Permanent(errBusiness) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSQLiteFake(t)
			var dead deadLetters
			h := chainOf(t, newGuard(t, s, quick()), &dead, func(msg *message.Message) ([]*message.Message, error) {
				if err := effectOf(msg); err != nil {
					return nil, err
				}
				return nil, fail()
			})
			if _, err := h(deliver(t, "m1", "x")); err != nil {
				t.Fatal(err)
			}
			s.wantEffects(t, 0)
			if s.has("svc/h", "m1") {
				t.Error("the claim stayed, so an operator cannot replay")
			}
			if len(dead.msgs) != 1 {
				t.Fatalf("%d dead letters", len(dead.msgs))
			}
			if _, err := once.Tx(dead.msgs[0].Context()); !errors.Is(err, once.ErrNoTx) {
				t.Errorf("the dead letter carries a transaction: %v", err)
			}
			if reason := dead.msgs[0].Metadata[middleware.ReasonForPoisonedKey]; reason == "" {
				t.Error("no reason")
			}
		})
	}
}

func TestErrors_AHandlerThatPanicsWithATransientErrorInsideARecoverer(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	h := g.Middleware(middleware.Recoverer(func(*message.Message) ([]*message.Message, error) {
		panic(fmt.Errorf("must: %w", store.ErrUnavailable))
	}))
	if _, err := h(deliver(t, "m1", "x")); !once.IsTransient(err) || once.Poison(err) {
		t.Errorf("got %v", err)
	}
}

func TestPermanent_NilStaysNil(t *testing.T) {
	t.Parallel()
	if once.Permanent(nil) != nil || once.IsPermanent(nil) || once.IsTransient(nil) {
		t.Error("nil is an error")
	}
}

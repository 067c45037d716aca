package once_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestDo_OnceThenDuplicate(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	g := newGuard(t, s, quick())
	hooks := 0
	for n := range 2 {
		result, err := g.Do(t.Context(), "web/hook", "k", func(ctx context.Context, tx *sqlx.Tx) error {
			if got, err := once.Tx(ctx); got != tx || err != nil {
				t.Errorf("Tx: %v, %v", got, err)
			}
			return errors.Join(effect(ctx, "k"), once.AfterCommit(ctx, func(context.Context) { hooks++ }))
		})
		if err != nil || result.Duplicate != (n == 1) || result.ClaimedAt.IsZero() == (n == 1) {
			t.Errorf("call %d: %+v, %v", n, result, err)
		}
	}
	s.wantEffects(t, 1)
	if hooks != 1 || !s.has("svc/web/hook", "k") {
		t.Errorf("%d hooks, claims %v", hooks, s.claims)
	}
}

func TestDo_ErrorsComeAtOnceAndRollBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		g := newGuard(t, s, once.Config{Service: "svc", PurgeEvery: -1, Observer: once.NopObserver{}})
		began := time.Now()
		_, err := g.Do(t.Context(), "hook", "k", func(context.Context, *sqlx.Tx) error { return errBusiness })
		if !errors.Is(err, errBusiness) || !strings.Contains(err.Error(), `consumer "svc/hook", key "k"`) {
			t.Errorf("got %v", err)
		}
		if _, err := g.Do(t.Context(), "hook", "k", func(context.Context, *sqlx.Tx) error { return once.ErrSkip }); err != nil {
			t.Errorf("skip: %v", err)
		}
		s.before = func(context.Context, store.Claim) error { return store.ErrUnavailable }
		if _, err := g.Do(t.Context(), "hook", "k", nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if time.Since(began) != 0 || s.has("svc/hook", "k") {
			t.Errorf("after %s: %v", time.Since(began), s.claims)
		}
	})
}

func TestDo_RefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	if err := handle(g, nothing)(deliver(t, "m1", "")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		name, key string
		is        error
	}{
		"no name":       {"", "k", once.ErrConfig},
		"long name":     {strings.Repeat("n", 252), "k", once.ErrConfig},
		"a handler's":   {"h", "k", once.ErrConfig},
		"no key":        {"hook", "", once.ErrNoKey},
		"blank key":     {"hook", " ", once.ErrNoKey},
		"broken UTF-8":  {"\xff", "k", once.ErrConfig},
		"control bytes": {"a\x00", "k", once.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := g.Do(t.Context(), c.name, c.key, func(context.Context, *sqlx.Tx) error { t.Error("it ran"); return nil })
			if !errors.Is(err, c.is) || !once.IsPermanent(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDo_PanicAndGoexitAreCounted(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	g := newGuard(t, newFake(), c)
	func() {
		defer func() {
			if recover() != any(errBoom) {
				t.Error("the panic did not go on")
			}
		}()
		_, _ = g.Do(t.Context(), "hook", "k", func(context.Context, *sqlx.Tx) error { return explode() })
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.Do(t.Context(), "hook", "k", func(context.Context, *sqlx.Tx) error { runtime.Goexit(); return nil })
	}()
	within(t, done, "Goexit")
	seen.wantOutcomes(t, once.Panicked, once.Exited)
}

func TestDo_InsideItself(t *testing.T) {
	t.Parallel()
	c := quick()
	c.Limit = 1
	g := newGuard(t, newFake(), c)
	_, err := g.Do(t.Context(), "hook", "k", func(ctx context.Context, _ *sqlx.Tx) error {
		_, err := g.Do(ctx, "hook", "k", nil)
		return err
	})
	if !errors.Is(err, store.ErrNested) || !once.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}

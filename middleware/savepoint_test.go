package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// inAttempt runs fn in a handler and returns what the guard returned.
func inAttempt(t *testing.T, s *fakeStore, fn func(ctx context.Context) error) error {
	t.Helper()
	return handle(newGuard(t, s, quick()), func(msg *message.Message) error { return fn(msg.Context()) })(deliver(t, "m1", "x"))
}

func TestSavepoint_KeepsOnSuccess(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	err := inAttempt(t, s, func(ctx context.Context) error {
		return once.Savepoint(ctx, func(ctx context.Context) error { return effect(ctx, "a") })
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
}

func TestSavepoint_UndoesOnErrorAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	err := inAttempt(t, s, func(ctx context.Context) error {
		err := once.Savepoint(ctx, func(ctx context.Context) error {
			return errors.Join(effect(ctx, "gone"), once.AfterCommit(ctx, func(context.Context) { t.Error("the hook of what was undone ran") }), errBusiness)
		})
		if !errors.Is(err, errBusiness) {
			t.Errorf("got %v", err)
		}
		return effect(ctx, "kept")
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
}

func TestSavepoint_ReturnsTheErrorItself(t *testing.T) {
	t.Parallel()
	_ = inAttempt(t, newSQLiteFake(t), func(ctx context.Context) error {
		if err := once.Savepoint(ctx, func(context.Context) error { return errBusiness }); err != errBusiness {
			t.Errorf("got %#v", err)
		}
		return nil
	})
}

func TestSavepoint_Nested(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	err := inAttempt(t, s, func(ctx context.Context) error {
		return once.Savepoint(ctx, func(ctx context.Context) error {
			for _, fail := range []bool{true, false, true} {
				_ = once.Savepoint(ctx, func(ctx context.Context) error {
					err := effect(ctx, "inner")
					if fail {
						return errBusiness
					}
					return err
				})
			}
			return effect(ctx, "outer")
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 2)
}

func TestSavepoint_UndoesAPanicThatTheHandlerRecovers(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	err := inAttempt(t, s, func(ctx context.Context) error {
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not go on")
				}
			}()
			_ = once.Savepoint(ctx, func(ctx context.Context) error {
				_ = effect(ctx, "gone")
				panic("boom")
			})
		}()
		return effect(ctx, "kept")
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
}

func TestSavepoint_UndoesAlsoWhenItsContextEnded(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	err := inAttempt(t, s, func(ctx context.Context) error {
		sub, cancel := context.WithCancel(ctx)
		err := once.Savepoint(sub, func(ctx context.Context) error {
			err := effect(ctx, "gone")
			cancel()
			return errors.Join(err, ctx.Err())
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return effect(ctx, "kept")
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantEffects(t, 1)
}

func TestSavepoint_JoinsTheErrorOfTheUndo(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	err := inAttempt(t, s, func(ctx context.Context) error {
		return once.Savepoint(ctx, func(ctx context.Context) error {
			tx, err := once.Tx(ctx)
			if err != nil {
				return err
			}
			_ = tx.Rollback() // what the guarded connection forbids
			return errBusiness
		})
	})
	if !errors.Is(err, errBusiness) || err.Error() == "" || !containsAll(err.Error(), "ROLLBACK TO SAVEPOINT once_1") {
		t.Errorf("got %v", err)
	}
}

func TestSavepoint_OutsideAnAttempt(t *testing.T) {
	t.Parallel()
	err := once.Savepoint(context.Background(), func(context.Context) error { t.Error("it ran"); return nil })
	if !errors.Is(err, once.ErrNoTx) {
		t.Errorf("got %v", err)
	}
}

// fn did its work although the context ended meanwhile: it stays, and the caller
// is not told otherwise.
func TestSavepoint_ContextThatEndsInside(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	h := handle(newGuard(t, s.SQL, quick()), func(msg *message.Message) error {
		ctx, cancel := context.WithCancel(msg.Context())
		return once.Savepoint(ctx, func(ctx context.Context) error {
			defer cancel()
			return effect(ctx, "m1")
		})
	})
	if err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
	s.wantEffects(t, 1)
}

package guarded_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/jmoiron/sqlx/reflectx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestHandlePrepares(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	insert, err := s.pool.Handle().PrepareContext(t.Context(), "INSERT")
	wantNil(t, err)
	s.wantSent("prepare INSERT", "close INSERT") // its connection went back
	for range 3 {
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			_, err := tx.StmtContext(t.Context(), insert).ExecContext(t.Context(), 1)
			return err
		}))
		s.wantSent("prepare INSERT", "exec INSERT", "close INSERT", "exec COMMIT")
	}
	_, err = insert.ExecContext(t.Context(), 2) // outside of a transaction
	wantNil(t, err)
	s.wantSent("prepare INSERT", "exec INSERT", "close INSERT")
	wantNil(t, insert.Close())
	s.wantSent()
	wantNil(t, s.pool.Handle().PingContext(t.Context()))
	s.wantSent("ping ")
}

// A statement that fails through such a handle dooms as any other.
func TestHandleFails(t *testing.T) {
	t.Parallel()
	s := newStand(t, failHere(&fake{}), guarded.Rules{})
	later, err := s.pool.Handle().PrepareContext(t.Context(), "later FAIL")
	wantNil(t, err)
	defer later.Close()
	wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
		_, err := tx.Stmt(later).Exec() //nolint:sqlclosecheck // with the transaction
		wantIs(t, err, errFake)
		return nil
	}), errFake)
	_, err = later.Exec()
	wantIs(t, err, errFake)
	s.wantIdle()
}

// W26
func TestW26StatementOfTheApplicationsPool(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	foreign, err := s.app.PrepareContext(t.Context(), "INSERT")
	wantNil(t, err)
	wantIs(t, s.tx(func(tx *sqlx.Tx) error {
		if _, err := tx.Stmt(foreign).Exec(); err == nil { //nolint:sqlclosecheck // refused
			t.Error("it was not refused")
		}
		return errFake
	}), errFake)
	wantNil(t, foreign.Close())
	s.wantIdle()
}

// Somebody may close the handle that is not theirs: GORM finds it by reflection
// in the handler's *sql.Tx. The attempt goes on, and so do later ones.
func TestHandleThatAStrangerCloses(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	first := s.pool.Handle()
	wantNil(t, s.tx(func(tx *sqlx.Tx) error {
		wantNil(t, first.Close())
		_, err := tx.ExecContext(t.Context(), "INSERT")
		return err
	}))
	s.wantSent("exec INSERT", "exec COMMIT")
	for range 2 {
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT")
			return err
		}))
		s.wantSent("exec INSERT", "exec COMMIT")
	}
	second := s.pool.Handle()
	if second == first {
		t.Fatal("the closed handle is still there")
	}
	wantNil(t, first.Close()) // again, and the second stays
	if s.pool.Handle() != second {
		t.Error("another handle's Close made it forget the new one")
	}
	s.wantIdle()
}

func TestHandleDoesNotBegin(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	_, err := s.pool.Handle().BeginTxx(t.Context(), nil)
	wantIs(t, err, guarded.ErrForbidden)
	_, err = s.pool.Handle().Begin()
	wantIs(t, err, guarded.ErrForbidden)
	s.wantSent()
}

func TestHandlerHasWhatSqlxKnows(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	s.app = s.app.Unsafe()
	s.app.Mapper = reflectx.NewMapper("json")
	s.pool = guarded.NewPool(s.app, guarded.Rules{})
	defer s.pool.Close()
	wantNil(t, s.tx(func(tx *sqlx.Tx) error {
		if tx.Mapper != s.app.Mapper || tx.DriverName() != s.app.DriverName() || tx.Rebind("?") != "$1" {
			t.Error("not the pool's")
		}
		var row struct{ A int } // no place for its column: only Unsafe takes that
		return tx.Get(&row, "SELECT")
	}))
}

func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	s.app.SetMaxOpenConns(1)
	insert, err := s.pool.Handle().PrepareContext(t.Context(), "INSERT")
	wantNil(t, err)
	defer insert.Close()
	var attempts sync.WaitGroup
	for range 20 {
		attempts.Go(func() {
			err := s.tx(func(tx *sqlx.Tx) error {
				_, err := tx.Stmt(insert).Exec() //nolint:sqlclosecheck // with the transaction
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	attempts.Wait()
	if opened, _, most := s.f.counts(); opened != 1 || most != 1 {
		t.Errorf("%d connections, %d statements at once", opened, most)
	}
	s.wantIdle()
}

func TestBorrowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	s.app.SetMaxOpenConns(1)
	c, err := s.pool.Borrow(t.Context())
	wantNil(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = s.pool.Borrow(ctx)
	wantIs(t, err, context.DeadlineExceeded)
	c.Release()
	s.wantSent()
}

func TestCloseWhileAttemptsRun(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	for range 50 {
		var attempts sync.WaitGroup
		for range 8 {
			attempts.Go(func() {
				err := s.tx(func(tx *sqlx.Tx) error { exec(t, tx, "INSERT"); return nil })
				if err != nil {
					t.Error(err)
				}
			})
		}
		wantNil(t, s.pool.Close())
		attempts.Wait()
	}
	if n := s.app.Stats().InUse; n != 0 {
		t.Errorf("%d connections in use", n)
	}
}

func TestApplicationsPoolClosedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	wantNil(t, s.tx(func(tx *sqlx.Tx) error {
		exec(t, tx, "INSERT")
		wantNil(t, s.app.Close())
		exec(t, tx, "INSERT")
		return nil
	}))
	s.wantSent("exec INSERT", "exec INSERT", "exec COMMIT")
	_, err := s.pool.Borrow(t.Context())
	if err == nil {
		t.Error("borrowed from a closed pool")
	}
	if _, err := s.pool.Handle().PrepareContext(t.Context(), "INSERT"); err == nil { //nolint:sqlclosecheck // refused
		t.Error("prepared on a closed pool")
	}
}

func TestConnMaxLifetime(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	s.app.SetConnMaxLifetime(time.Nanosecond)
	for range 3 {
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			exec(t, tx, "INSERT")
			exec(t, tx, "INSERT")
			return nil
		}))
		s.wantSent("exec INSERT", "exec INSERT", "exec COMMIT")
	}
}

// The attempt's context may end at any time: database/sql must not roll back
// on its own behind the engine.
func TestAttemptsContextDoesNotEndTheTransaction(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	ctx, cancel := context.WithCancel(t.Context())
	c, err := s.pool.Borrow(ctx)
	wantNil(t, err)
	tx, err := c.Begin(&session{s}, func() (context.Context, context.CancelFunc) {
		return context.WithCancel(context.Background())
	})
	wantNil(t, err)
	cancel()
	_, err = tx.ExecContext(ctx, "INSERT")
	wantIs(t, err, context.Canceled)
	exec(t, tx, "INSERT")
	wantNil(t, c.Commit(t.Context(), tx))
	c.Release()
	s.wantSent("exec INSERT", "exec COMMIT")
}

func TestOwnStatements(t *testing.T) {
	t.Parallel()
	for _, kind := range connKinds {
		for _, stmtKind := range stmtKinds {
			s := newStand(t, &fake{kind: kind, stmtKind: stmtKind, do: failing}, guarded.Rules{})
			c, err := s.pool.Borrow(t.Context())
			wantNil(t, err)
			n, err := c.Exec(t.Context(), "INSERT", []byte("a"), int64(1), nil)
			if err != nil || n != 1 {
				t.Errorf("%d, %v", n, err)
			}
			var found int64
			ok, err := c.QueryRow(t.Context(), "SELECT", []any{"x"}, &found)
			if err != nil || !ok || found != 1 {
				t.Errorf("%v, %d, %v", ok, found, err)
			}
			_, err = c.Exec(t.Context(), "FAIL", "x")
			wantIs(t, err, errFake)
			_, err = c.QueryRow(t.Context(), "FAIL", nil)
			wantIs(t, err, errFake)
			c.Release()
			s.wantIdle()
		}
	}
}

// A connection that must not be used again is closed by hand, before the pool
// gets to it, and never while somebody is in it.
func TestBreaks(t *testing.T) {
	t.Parallel()
	for _, bad := range []bool{false, true} {
		s := newStand(t, &fake{}, guarded.Rules{})
		c, err := s.pool.Borrow(t.Context())
		wantNil(t, err)
		broke := 0
		c.Breaks(func() {
			broke++
			if _, closed, _ := s.f.counts(); closed != 0 {
				t.Error("the pool has closed it already")
			}
		})
		if bad {
			c.Discard()
		}
		c.Release()
		if want := map[bool]int{true: 1}[bad]; broke != want {
			t.Errorf("bad %v: broken %d times", bad, broke)
		}
		s.wantIdle()
	}
}

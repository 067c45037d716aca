package guarded_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestOpenRowsAreBusy(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(tx *sqlx.Tx) error{
		"exec":    func(tx *sqlx.Tx) error { _, err := tx.Exec("INSERT"); return err },
		"query":   func(tx *sqlx.Tx) error { return tx.QueryRow("SELECT").Err() },
		"prepare": func(tx *sqlx.Tx) error { _, err := tx.Prepare("SELECT"); return err }, //nolint:sqlclosecheck // refused
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{}, guarded.Rules{})
			err := s.tx(func(tx *sqlx.Tx) error {
				rows, err := tx.QueryContext(t.Context(), "SELECT")
				wantNil(t, err)
				defer rows.Close()
				wantIs(t, second(tx), guarded.ErrBusy)
				return rows.Err()
			})
			wantDoom(t, err, guarded.ErrBusy)
			s.wantSent("query SELECT", "close rows SELECT", "exec ROLLBACK")
		})
	}
	t.Run("one after the other", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{}, guarded.Rules{})
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			var ns []int
			wantNil(t, tx.Select(&ns, "SELECT"))
			exec(t, tx, "INSERT")
			return nil
		}))
		s.wantSent("query SELECT", "close rows SELECT", "exec INSERT", "exec COMMIT")
	})
}

func TestTwoGoroutines(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	err := s.tx(func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "SELECT")
		wantNil(t, err)
		second := make(chan error)
		go func() {
			_, err := tx.ExecContext(t.Context(), "INSERT")
			second <- err
		}()
		wantIs(t, <-second, guarded.ErrBusy)
		return errors.Join(rows.Close(), rows.Err())
	})
	wantDoom(t, err, guarded.ErrBusy)
	s.wantSent("query SELECT", "close rows SELECT", "exec ROLLBACK")
}

// Statements of many goroutines that leave nothing open come one by one: that
// is database/sql's doing, and nothing is refused.
func TestGoroutinesThatWait(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{do: func(call) error { runtime.Gosched(); return nil }}, guarded.Rules{})
	const n = 20
	wantNil(t, s.tx(func(tx *sqlx.Tx) error {
		done := make(chan error)
		for range n {
			go func() {
				_, err := tx.ExecContext(t.Context(), "INSERT")
				done <- err
			}()
		}
		var err error
		for range n {
			err = errors.Join(err, <-done)
		}
		return err
	}))
	if sent := s.f.sent(); len(sent) != n+1 {
		t.Errorf("sent %q", sent)
	}
	s.wantIdle()
}

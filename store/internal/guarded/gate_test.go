package guarded_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestCommitSendsNothingButTheStatements(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	used := false
	wantNil(t, s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
		if c.Used() {
			t.Error("used before a statement")
		}
		exec(t, tx, "INSERT")
		used = c.Used()
		return nil
	}))
	s.wantSent("exec INSERT", "exec COMMIT")
	if !used {
		t.Error("not used after a statement")
	}
	wantNil(t, s.tx(func(*sqlx.Tx) error { return nil }))
	s.wantSent("exec COMMIT")
	wantIs(t, s.tx(func(tx *sqlx.Tx) error { exec(t, tx, "INSERT"); return errFake }), errFake)
	s.wantSent("exec INSERT", "exec ROLLBACK")
	if opened, _, _ := s.f.counts(); opened != 1 {
		t.Errorf("%d connections opened for three attempts", opened)
	}
}

// failures are the ways in which a statement can fail.
var failures = map[string]func(ctx context.Context, tx *sqlx.Tx) error{
	"exec": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "FAIL")
		return err
	},
	"query": func(ctx context.Context, tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, "FAIL")
		if err == nil {
			return errors.Join(rows.Close(), rows.Err())
		}
		return err
	},
	"prepare": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.PrepareContext(ctx, "FAIL")
		return err
	},
	"prepared exec": func(ctx context.Context, tx *sqlx.Tx) error {
		stmt, err := tx.PrepareContext(ctx, "later FAIL")
		if err != nil {
			return err
		}
		_, err = stmt.ExecContext(ctx)
		return err
	},
	"prepared query": func(ctx context.Context, tx *sqlx.Tx) error {
		stmt, err := tx.PrepareContext(ctx, "later FAIL")
		if err != nil {
			return err
		}
		return stmt.QueryRowContext(ctx).Scan(new(int))
	},
	"row": func(ctx context.Context, tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT bad row")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() { // to the bad one
		}
		return rows.Err()
	},
	"close rows": func(ctx context.Context, tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT bad end")
		if err != nil {
			return err
		}
		return errors.Join(rows.Close(), rows.Err())
	},
	"argument": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT", valuer{err: errFake})
		return err
	},
}

// valuer is a driver.Valuer.
type valuer struct {
	v   driver.Value
	err error
}

func (v valuer) Value() (driver.Value, error) { return v.v, v.err }

func failHere(f *fake) *fake {
	f.do = func(c call) error {
		if c.verb == "prepare" && strings.HasPrefix(c.query, "later") {
			return nil
		}
		if c.verb == "close rows" && c.query == "SELECT bad end" {
			return errFake
		}
		return failing(c)
	}
	f.next = func(query string, row int) error {
		if query == "SELECT bad row" && row == 2 {
			return errFake
		}
		return nil
	}
	return f
}

func TestEveryFailureDooms(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, failHere(&fake{}), guarded.Rules{})
			err := s.tx(func(tx *sqlx.Tx) error {
				wantIs(t, fail(t.Context(), tx), errFake)
				s.f.sent()
				_, err := tx.ExecContext(t.Context(), "INSERT")
				wantDoom(t, err, errFake)
				_, err = tx.QueryContext(t.Context(), "SELECT") //nolint:sqlclosecheck,rowserrcheck // refused
				wantDoom(t, err, errFake)
				_, err = tx.PrepareContext(t.Context(), "SELECT") //nolint:sqlclosecheck // refused
				wantDoom(t, err, errFake)
				if sent := s.f.sent(); len(sent) > 0 {
					t.Errorf("sent after the failure: %q", sent)
				}
				return nil
			})
			wantDoom(t, err, errFake)
			if sent := s.f.sent(); sent[len(sent)-1] != "exec ROLLBACK" {
				t.Errorf("sent at the end: %q", sent)
			}
			wantNil(t, s.tx(func(tx *sqlx.Tx) error { exec(t, tx, "INSERT"); return nil }))
			s.wantSent("exec INSERT", "exec COMMIT")
		})
	}
}

func TestRollbackToForgives(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, failHere(&fake{}), postgresRules)
			wantNil(t, s.tx(func(tx *sqlx.Tx) error {
				exec(t, tx, "SAVEPOINT a")
				wantIs(t, fail(t.Context(), tx), errFake)
				exec(t, tx, "/* undo */ rollback to savepoint a;")
				exec(t, tx, "INSERT")
				return nil
			}))
			s.wantIdle()
		})
	}
	t.Run("prepared", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, failHere(&fake{}), postgresRules)
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			undo, err := tx.PrepareContext(t.Context(), "ROLLBACK TO a")
			wantNil(t, err)
			_, err = tx.ExecContext(t.Context(), "FAIL")
			wantIs(t, err, errFake)
			again, err := tx.PrepareContext(t.Context(), "ROLLBACK TO a")
			wantNil(t, err)
			_, err = tx.ExecContext(t.Context(), "INSERT")
			wantDoom(t, err, errFake) // prepared is not run
			_, err = undo.ExecContext(t.Context())
			wantNil(t, err)
			exec(t, tx, "INSERT")
			return again.Close()
		}))
		s.wantIdle()
	})
}

func TestRollbackToDoesNotForgive(t *testing.T) {
	t.Parallel()
	rollbackTo := func(t *testing.T, tx *sqlx.Tx, query string) {
		t.Helper()
		if _, err := tx.ExecContext(t.Context(), query); err == nil {
			t.Errorf("%s was accepted", query)
		}
	}
	for name, test := range map[string]struct {
		why  error
		then func(t *testing.T, tx *sqlx.Tx)
	}{
		"when the server refuses it": {errFake, func(t *testing.T, tx *sqlx.Tx) {
			_, err := tx.ExecContext(t.Context(), "FAIL")
			wantIs(t, err, errFake)
			rollbackTo(t, tx, "ROLLBACK TO FAIL")
		}},
		"with something behind it": {errFake, func(t *testing.T, tx *sqlx.Tx) {
			_, err := tx.ExecContext(t.Context(), "FAIL")
			wantIs(t, err, errFake)
			rollbackTo(t, tx, "ROLLBACK TO a; INSERT")
			rollbackTo(t, tx, "INSERT; ROLLBACK TO a")
		}},
		"a refusal": {guarded.ErrForbidden, func(t *testing.T, tx *sqlx.Tx) {
			_, err := tx.ExecContext(t.Context(), "COMMIT")
			wantIs(t, err, guarded.ErrForbidden)
			rollbackTo(t, tx, "ROLLBACK TO a")
		}},
		"two goroutines": {guarded.ErrBusy, func(t *testing.T, tx *sqlx.Tx) {
			rows, err := tx.QueryContext(t.Context(), "SELECT")
			wantNil(t, err)
			_, err = tx.ExecContext(t.Context(), "INSERT")
			wantIs(t, err, guarded.ErrBusy)
			wantNil(t, errors.Join(rows.Close(), rows.Err()))
			rollbackTo(t, tx, "ROLLBACK TO a")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{do: failing}, postgresRules)
			wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
				exec(t, tx, "SAVEPOINT a")
				test.then(t, tx)
				return nil
			}), test.why)
			s.wantIdle()
		})
	}
}

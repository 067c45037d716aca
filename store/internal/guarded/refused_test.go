package guarded_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestForbiddenIsNotSent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(tx *sqlx.Tx) error{
		"exec":      func(tx *sqlx.Tx) error { _, err := tx.Exec("-- all\nCOMMIT"); return err },
		"query":     func(tx *sqlx.Tx) error { return tx.QueryRow("SELECT 1; COMMIT").Err() },
		"prepare":   func(tx *sqlx.Tx) error { _, err := tx.Prepare("ROLLBACK"); return err }, //nolint:sqlclosecheck // refused
		"begin":     func(tx *sqlx.Tx) error { _, err := tx.Exec("BEGIN"); return err },
		"tx.Commit": func(tx *sqlx.Tx) error { return tx.Commit() },
		"tx.Rollback": func(tx *sqlx.Tx) error {
			if err := tx.Rollback(); err != nil {
				return err
			}
			return guarded.ErrForbidden // it cannot say so itself
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, returns := range []error{nil, errFake} {
				s := newStand(t, &fake{}, guarded.Rules{})
				err := s.tx(func(tx *sqlx.Tx) error {
					exec(t, tx, "INSERT")
					wantIs(t, end(tx), guarded.ErrForbidden)
					if _, err := tx.ExecContext(t.Context(), "INSERT"); err == nil {
						t.Error("the transaction went on")
					}
					return returns
				})
				if returns == nil {
					wantDoom(t, err, guarded.ErrForbidden)
				} else {
					wantIs(t, err, errFake)
				}
				s.wantSent("exec INSERT", "exec ROLLBACK")
			}
		})
	}
}

func TestTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	limit := int64(0)
	rules := postgresRules
	rules.MaxStatement, rules.MaxStatementName = func() int64 { return limit }, "max_allowed_packet"
	large := strings.Repeat("x", 1000)
	for name, send := range map[string]func(tx *sqlx.Tx) error{
		"text":     func(tx *sqlx.Tx) error { _, err := tx.Exec("INSERT '" + large + "'"); return err },
		"argument": func(tx *sqlx.Tx) error { _, err := tx.Exec("INSERT", large); return err },
		"bytes":    func(tx *sqlx.Tx) error { return tx.QueryRow("INSERT", []byte(large)).Err() },
		"prepared": func(tx *sqlx.Tx) error {
			stmt, err := tx.Prepare("INSERT")
			if err != nil {
				return err
			}
			defer stmt.Close()
			_, err = stmt.Exec(large)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, &fake{}, rules)
			limit = 0 // not known yet
			wantNil(t, s.tx(send))
			limit = 500
			s.f.sent()
			err := s.tx(func(tx *sqlx.Tx) error { wantIs(t, send(tx), guarded.ErrTooLarge); return nil })
			wantDoom(t, err, guarded.ErrTooLarge)
			if !strings.Contains(err.Error(), "max_allowed_packet") || !strings.Contains(err.Error(), "500") {
				t.Errorf("does not name the limit: %v", err)
			}
			for _, sent := range s.f.sent() {
				if strings.HasPrefix(sent, "exec INSERT") || strings.HasPrefix(sent, "query") {
					t.Errorf("it was sent: %s", sent)
				}
			}
			// A failure like others: a savepoint undoes it.
			wantNil(t, s.tx(func(tx *sqlx.Tx) error {
				exec(t, tx, "SAVEPOINT a")
				wantIs(t, send(tx), guarded.ErrTooLarge)
				exec(t, tx, "ROLLBACK TO a")
				return nil
			}))
			s.wantIdle()
		})
	}
}

// A driver that writes arguments out into the statement makes it larger than it
// looked; the server hangs up on it, or says so.
func TestC08WrittenOutTooLarge(t *testing.T) {
	t.Parallel()
	rules := mysqlRules
	rules.MaxStatement, rules.MaxStatementName = func() int64 { return 1000 }, "max_allowed_packet"
	errPacket := errors.New("packet too large")
	rules.TooLarge = func(err error) bool { return errors.Is(err, errPacket) }
	quotes, letters := strings.Repeat("'", 600), strings.Repeat("a", 600)
	for name, test := range map[string]struct {
		arg  any
		dies bool
		says error
		want error
	}{
		"the connection dies":           {quotes, true, errFake, guarded.ErrTooLarge},
		"the connection dies of bytes":  {[]byte(quotes), true, errFake, guarded.ErrTooLarge},
		"the server says so":            {letters, false, errPacket, guarded.ErrTooLarge},
		"it dies of something else":     {letters, true, errFake, errFake},
		"it lives, and fails otherwise": {quotes, false, errFake, errFake},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, send := range ways {
				f := &fake{kind: "mortal"}
				f.do = func(c call) error {
					if (c.verb == "exec" || c.verb == "query") && c.query == "Q" {
						f.dead = test.dies
						return test.says
					}
					return nil
				}
				s := newStand(t, f, rules)
				err := s.tx(func(tx *sqlx.Tx) error {
					wantIs(t, send(tx, []any{test.arg}), test.says)
					return nil
				})
				wantDoom(t, err, test.want)
				wantDoom(t, err, test.says)
				if errors.Is(test.want, errFake) && errors.Is(err, guarded.ErrTooLarge) {
					t.Errorf("%s: %v", way, err)
				}
			}
		})
	}
}

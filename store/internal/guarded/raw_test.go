package guarded_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestRaw(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	var was *guarded.Conn
	wantNil(t, s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
		was = c
		exec(t, tx, "INSERT")
		wantNil(t, c.Raw(func(dc driver.Conn) error {
			if dc != c.Driver() {
				t.Error("not the pool's connection")
			}
			_, err := dc.(driver.ExecerContext).ExecContext(t.Context(), "COPY", nil)
			return err
		}))
		exec(t, tx, "INSERT")
		return nil
	}))
	s.wantSent("exec INSERT", "exec COPY", "exec INSERT", "exec COMMIT")
	if !was.Used() {
		t.Error("not used")
	}
	err := was.Raw(func(driver.Conn) error { t.Error("lent after the end"); return nil })
	wantIs(t, err, sql.ErrTxDone)
	if doom := was.Doom(); doom != nil {
		t.Errorf("doomed after the end: %v", doom)
	}
}

func TestRawDooms(t *testing.T) {
	t.Parallel()
	errCheck := errors.New("not as it was")
	for name, test := range map[string]struct {
		why error
		use func(s *stand, c *guarded.Conn, tx *sqlx.Tx)
	}{
		"its error": {errFake, func(_ *stand, c *guarded.Conn, _ *sqlx.Tx) {
			_ = c.Raw(func(driver.Conn) error { return errFake })
		}},
		"a transaction that is not as it was": {errCheck, func(s *stand, c *guarded.Conn, _ *sqlx.Tx) {
			s.check = func() error { return errCheck }
			if err := c.Raw(func(driver.Conn) error { return nil }); !errors.Is(err, errCheck) {
				s.Errorf("Raw said %v", err)
			}
		}},
		"nested": {guarded.ErrBusy, func(s *stand, c *guarded.Conn, _ *sqlx.Tx) {
			_ = c.Raw(func(driver.Conn) error {
				wantIs(s.T, c.Raw(func(driver.Conn) error { s.Error("lent twice"); return nil }), guarded.ErrBusy)
				return nil
			})
		}},
		"a statement inside": {guarded.ErrBusy, func(s *stand, c *guarded.Conn, tx *sqlx.Tx) {
			_ = c.Raw(func(driver.Conn) error {
				_, err := tx.Exec("INSERT")
				wantIs(s.T, err, guarded.ErrBusy)
				return nil
			})
		}},
		"with Rows open": {guarded.ErrBusy, func(s *stand, c *guarded.Conn, tx *sqlx.Tx) {
			rows, err := tx.Query("SELECT")
			wantNil(s.T, err)
			defer rows.Close()
			wantIs(s.T, c.Raw(func(driver.Conn) error { s.Error("lent"); return nil }), guarded.ErrBusy)
			wantNil(s.T, rows.Err())
		}},
		"Commit inside": {guarded.ErrForbidden, func(s *stand, c *guarded.Conn, tx *sqlx.Tx) {
			_ = c.Raw(func(driver.Conn) error {
				wantIs(s.T, tx.Commit(), guarded.ErrBusy)
				return nil
			})
		}},
		"Rollback inside": {guarded.ErrBusy, func(s *stand, c *guarded.Conn, tx *sqlx.Tx) {
			_ = c.Raw(func(driver.Conn) error {
				wantIs(s.T, tx.Rollback(), guarded.ErrBusy)
				return nil
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, returns := range []error{nil, errFake} {
				s := newStand(t, &fake{}, guarded.Rules{})
				s.check = func() error { return nil }
				err := s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
					test.use(s, c, tx)
					return returns
				})
				if returns == nil {
					wantDoom(t, err, test.why)
				} else {
					wantIs(t, err, errFake)
				}
				if sent := s.f.sent(); len(sent) == 0 || sent[len(sent)-1] != "exec ROLLBACK" {
					t.Errorf("not rolled back: %q", sent)
				}
				s.wantIdle()
			}
		})
	}
}

func TestRawThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panic": func() { panic(errFake) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{}, guarded.Rules{})
			var err error
			var recovered any
			done := make(chan struct{})
			go func() {
				defer close(done)
				err = s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
					inner := make(chan struct{})
					go func() {
						defer close(inner)
						defer func() { recovered = recover() }()
						_ = c.Raw(func(driver.Conn) error { leave(); return nil })
					}()
					<-inner
					_, err := tx.Exec("INSERT")
					wantIs(t, err, guarded.ErrDoomed)
					return nil
				})
			}()
			<-done
			if name == "panic" && recovered != errFake { //nolint:errorlint // the value itself
				t.Errorf("recovered %v", recovered)
			}
			wantIs(t, err, guarded.ErrDoomed)
			s.wantSent("exec ROLLBACK")
		})
	}
}

// The end waits for a function that still has the raw connection.
func TestRawAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	inside, goOn := make(chan struct{}), make(chan struct{})
	raw := make(chan error, 1)
	err := s.attempt(func(c *guarded.Conn, _ *sqlx.Tx) error {
		go func() {
			raw <- c.Raw(func(dc driver.Conn) error {
				close(inside)
				<-goOn
				_, err := dc.(driver.ExecerContext).ExecContext(t.Context(), "COPY", nil)
				return err
			})
		}()
		<-inside
		go func() {
			for c.Doom() == nil { // the end has seen it
				runtime.Gosched()
			}
			close(goOn)
		}()
		return nil
	})
	wantNil(t, <-raw)
	wantDoom(t, err, guarded.ErrBusy)
	s.wantSent("exec COPY", "exec ROLLBACK")
}

package guarded_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"runtime"
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

func TestContextOfAStatement(t *testing.T) {
	t.Parallel()
	t.Run("ends in it", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := newStand(t, &fake{do: func(c call) error {
			if c.query == "WAIT" {
				cancel()
				<-c.ctx.Done()
				return errFake // what the server said to the driver's cancel request
			}
			return nil
		}}, guarded.Rules{})
		err := s.tx(func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "WAIT")
			wantIs(t, err, errFake) // the driver's own error, as on the plain pool
			return nil
		})
		wantDoom(t, err, errFake)
		wantDoom(t, err, context.Canceled)
		s.wantSent("exec WAIT", "exec ROLLBACK")
	})
	t.Run("over before it", func(t *testing.T) {
		t.Parallel()
		// The one failure that nobody but the handler can see: database/sql
		// does not ask its driver.
		s := newStand(t, &fake{}, guarded.Rules{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantNil(t, s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT")
			wantIs(t, err, context.Canceled)
			if c.Used() {
				t.Error("it was seen after all")
			}
			return nil
		}))
		s.wantSent("exec COMMIT")
	})
	t.Run("ends while its rows are open", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{rows: 1 << 30}, guarded.Rules{})
		ctx, cancel := context.WithCancel(t.Context())
		err := s.tx(func(tx *sqlx.Tx) error {
			rows, err := tx.QueryContext(ctx, "SELECT")
			wantNil(t, err)
			if !rows.Next() {
				t.Fatal(rows.Err())
			}
			cancel()
			for rows.Next() { // database/sql closes them
			}
			return rows.Close()
		})
		wantDoom(t, err, context.Canceled)
		s.wantSent("query SELECT", "close rows SELECT", "exec ROLLBACK")
	})
	t.Run("ends behind it", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{}, guarded.Rules{})
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				var ns []int
				wantNil(t, tx.SelectContext(ctx, &ns, "SELECT"))
				cancel()
			}
			return nil
		}))
		s.wantIdle()
	})
}

func TestPanicInTheDriver(t *testing.T) {
	t.Parallel()
	for _, goexit := range []bool{false, true} {
		for _, where := range []string{"exec", "query", "prepare", "next", "close rows", "argument"} {
			t.Run(where, func(t *testing.T) {
				t.Parallel()
				leave := func() { panic("boom") }
				if goexit {
					leave = runtime.Goexit
				}
				f := &fake{
					do: func(c call) error {
						if c.verb == where && c.query == "BOOM" {
							leave()
						}
						return nil
					},
					next: func(query string, row int) error {
						if where == "next" && query == "BOOM" && row == 2 {
							leave()
						}
						return nil
					},
				}
				s := newStand(t, f, guarded.Rules{})
				err := s.tx(func(tx *sqlx.Tx) error {
					done := make(chan any)
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						switch where {
						case "exec":
							_, _ = tx.Exec("BOOM")
						case "prepare":
							_, _ = tx.Prepare("BOOM") //nolint:sqlclosecheck // panics
						case "argument":
							_, _ = tx.Exec("INSERT", leaver(leave))
						default:
							_ = tx.Select(&[]int{}, "BOOM")
						}
					}()
					<-done
					return nil // it recovered, and thinks all is well
				})
				if where != "argument" {
					if opened, closed, _ := s.f.counts(); opened != closed {
						t.Errorf("opened %d, closed %d: the connection should be discarded", opened, closed)
					}
				}
				if doom, ok := errors.AsType[*guarded.DoomedError](err); !ok {
					t.Errorf("committed behind a panic: %v", err)
				} else {
					t.Log(doom)
				}
				s.wantIdle()
			})
		}
	}
}

// leaver is a Valuer that does not return.
type leaver func()

func (l leaver) Value() (driver.Value, error) { l(); return nil, nil }

func TestBadConnectionIsDiscarded(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{do: func(c call) error {
		if c.query == "DIES" {
			return driver.ErrBadConn
		}
		return nil
	}}, guarded.Rules{})
	wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DIES")
		wantIs(t, err, driver.ErrBadConn)
		return nil
	}), driver.ErrBadConn)
	if opened, closed, _ := s.f.counts(); opened != 1 || closed != 1 {
		t.Errorf("opened %d, closed %d", opened, closed)
	}
	wantNil(t, s.tx(func(*sqlx.Tx) error { return nil }))
	s.wantIdle()
}

// A lost connection may show as an io.EOF with something around it.
func TestWrappedEOFIsAFailure(t *testing.T) {
	t.Parallel()
	lost := errors.Join(errors.New("read tcp"), io.EOF)
	s := newStand(t, &fake{next: func(string, int) error { return lost }}, guarded.Rules{})
	wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
		if err := tx.Select(&[]int{}, "SELECT"); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		return nil
	}), lost)
	s.wantIdle()
}

func TestFailedRollbackDiscards(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{do: func(c call) error {
		if c.query == "ROLLBACK" {
			return errFake
		}
		return nil
	}}, guarded.Rules{})
	wantIs(t, s.tx(func(*sqlx.Tx) error { return errFake }), errFake)
	wantDoom(t, s.tx(func(tx *sqlx.Tx) error { wantIs(t, tx.Rollback(), errFake); return nil }), guarded.ErrForbidden)
	wantDoom(t, s.tx(func(tx *sqlx.Tx) error { wantIs(t, tx.Commit(), guarded.ErrForbidden); return nil }), guarded.ErrForbidden)
	if opened, closed, _ := s.f.counts(); opened != 3 || closed != 3 {
		t.Errorf("opened %d, closed %d", opened, closed)
	}
}

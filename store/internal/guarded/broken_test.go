package guarded_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

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

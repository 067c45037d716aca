package guarded_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

var errGone = errors.New("use of closed network connection")

// deaf waits for the server whatever its context says, as lib/pq does.
func deaf() *fake {
	f := &fake{gone: make(chan struct{}), rows: 1 << 30}
	hang := func() error { <-f.gone; return errGone }
	f.do = func(c call) error {
		if c.query == "HANGS" && c.verb != "close rows" {
			return hang()
		}
		return nil
	}
	f.next = func(query string, row int) error {
		if query == "HANGS ON" && row == 2 {
			return hang()
		}
		return nil
	}
	return f
}

func TestCutOff(t *testing.T) {
	for name, hang := range map[string]func(ctx context.Context, c *guarded.Conn, tx *sqlx.Tx) error{
		"exec": func(ctx context.Context, _ *guarded.Conn, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "HANGS")
			return err
		},
		"query": func(ctx context.Context, _ *guarded.Conn, tx *sqlx.Tx) error {
			return tx.SelectContext(ctx, &[]string{}, "HANGS")
		},
		"prepare": func(ctx context.Context, _ *guarded.Conn, tx *sqlx.Tx) error {
			_, err := tx.PrepareContext(ctx, "HANGS") //nolint:sqlclosecheck // fails
			return err
		},
		"the engine's exec": func(ctx context.Context, c *guarded.Conn, _ *sqlx.Tx) error {
			_, err := c.Exec(ctx, "HANGS")
			return err
		},
		"the engine's query": func(ctx context.Context, c *guarded.Conn, _ *sqlx.Tx) error {
			_, err := c.QueryRow(ctx, "HANGS", nil)
			return err
		},
		"the engine's call": func(ctx context.Context, c *guarded.Conn, _ *sqlx.Tx) error {
			return c.Within(ctx, func() error { <-ctx.Done(); time.Sleep(guarded.CutOffAfter); return ctx.Err() }) //nolint:forbidigo // in a bubble
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, deaf(), guarded.Rules{})
				began := time.Now()
				var took time.Duration
				_ = s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
					c.CutOff()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err := hang(ctx, c, tx)
					took = time.Since(began)
					if err == nil {
						t.Error("it did not hang")
					}
					return err
				})
				if want := time.Second + guarded.CutOffAfter; took != want {
					t.Errorf("ended after %v, want %v", took, want)
				}
				synctest.Wait()
				if opened, closed, _ := s.f.counts(); opened != 1 || closed < 1 {
					t.Errorf("opened %d, closed %d", opened, closed)
				}
				s.wantIdle()
				s.f.cutOff = true
			})
		})
	}
}

// This one waits for real: a goroutine of database/sql waits for a lock meanwhile.
func TestCutOffInRows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newStand(t, deaf(), guarded.Rules{})
	s.f.cutOff = true
	hang := s.f.next
	s.f.next = func(query string, row int) error {
		if row == 2 {
			cancel()
		}
		return hang(query, row)
	}
	began := time.Now()
	wantDoom(t, s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
		c.CutOff()
		if err := tx.SelectContext(ctx, &[]string{}, "HANGS ON"); err == nil {
			t.Error("it did not hang")
		}
		return nil
	}), context.Canceled)
	if took := time.Since(began); took < guarded.CutOffAfter {
		t.Errorf("ended after %v", took)
	}
	s.wantIdle()
}

// One that returns is not cut off, however long after its context it is used.
func TestNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, deaf(), guarded.Rules{})
		wantNil(t, s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
			c.CutOff()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := tx.ExecContext(ctx, "INSERT")
			wantNil(t, err)
			rows, err := tx.QueryContext(ctx, "SELECT")
			wantNil(t, err)
			wantNil(t, errors.Join(rows.Close(), rows.Err()))
			cancel()
			time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
			exec(t, tx, "INSERT")
			return nil
		}))
		if opened, closed, _ := s.f.counts(); opened != 1 || closed != 0 {
			t.Errorf("opened %d, closed %d", opened, closed)
		}
	})
}

package guarded_test

import (
	"database/sql/driver"
	"errors"
	"slices"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// What could not be stored before COMMIT leaves the transaction open, so it is
// rolled back; the connection goes only when that fails.
func TestNotKeptRollsBack(t *testing.T) {
	t.Parallel()
	for name, rollback := range map[string]error{"healthy": nil, "broken": errFake} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{do: func(c call) error {
				switch c.query {
				case "COMMIT":
					return &guarded.NotKeptError{Err: errFake}
				case "ROLLBACK":
					return rollback
				}
				return nil
			}}, guarded.Rules{})
			err := s.tx(func(*sqlx.Tx) error { return nil })
			if _, ok := errors.AsType[*guarded.NotKeptError](err); !ok || !errors.Is(err, errFake) {
				t.Errorf("got %v", err)
			}
			s.wantSent("exec COMMIT", "exec ROLLBACK")
			if opened, closed, _ := s.f.counts(); opened != 1 || (closed == 0) != (rollback == nil) {
				t.Errorf("opened %d, closed %d", opened, closed)
			}
		})
	}
}

// An error that came behind a row, or behind none, is told with what was there
// before it.
func TestAskTellsWhatCame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rows int
		fail int // at this row
		want guarded.Answer
	}{
		"a row":              {rows: 1, want: guarded.AnsweredRow},
		"rows":               {rows: 3, want: guarded.AnsweredRow},
		"none":               {rows: -1, want: guarded.AnsweredEmpty},
		"an error":           {rows: 3, fail: 1, want: guarded.AnsweredEmpty},
		"an error behind it": {rows: 3, fail: 2, want: guarded.AnsweredRow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{rows: test.rows, next: func(_ string, row int) error {
				if row == test.fail {
					return errFake
				}
				return nil
			}}, guarded.Rules{})
			c, err := s.pool.Borrow(t.Context())
			wantNil(t, err)
			defer c.Release()
			var n int64
			answer, err := c.Ask(t.Context(), "SELECT", nil, &n)
			if answer != test.want || (test.fail == 0) != (err == nil) || answer == guarded.AnsweredRow && n != 1 {
				t.Errorf("%d with %d: %v", answer, n, err)
			}
		})
	}
}

func TestQueryRowsReadsAll(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	c, err := s.pool.Borrow(t.Context())
	wantNil(t, err)
	defer c.Release()
	var n int64
	var got []int64
	wantNil(t, c.QueryRows(t.Context(), "SELECT", nil, []any{&n}, func() error {
		got = append(got, n)
		return nil
	}))
	if !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("read %v", got)
	}
	err = c.QueryRows(t.Context(), "SELECT", nil, []any{&n}, func() error { return driver.ErrBadConn })
	wantIs(t, err, driver.ErrBadConn)
	_, err = c.ExecPrepared(t.Context(), "INSERT", []byte("x"))
	wantNil(t, err)
	if sent := s.f.sent(); !slices.ContainsFunc(sent, func(s string) bool { return s == "close INSERT" }) {
		t.Errorf("sent %q, without preparing", sent)
	}
}

package guarded_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// stand is an application's pool over a fake driver, and a guarded pool over it.
type stand struct {
	*testing.T
	f    *fake
	app  *sqlx.DB
	pool *guarded.Pool

	bound time.Duration // of commit and rollback
	check func() error
}

func newStand(t *testing.T, f *fake, rules guarded.Rules) *stand {
	t.Helper()
	f.numInput = cmp.Or(f.numInput, -1)
	f.rows = cmp.Or(f.rows, 3)
	db := sql.OpenDB(f)
	s := &stand{T: t, f: f, app: sqlx.NewDb(db, "pgx"), bound: 5 * time.Second}
	s.pool = guarded.NewPool(s.app, rules)
	t.Cleanup(func() {
		if err := s.pool.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if opened, closed, _ := f.counts(); opened != closed && !f.cutOff {
			t.Errorf("%d connections opened, %d closed", opened, closed)
		}
	})
	return s
}

// attempt does what the engine does with a new claim: fn's error or panic rolls
// back, nil commits.
func (s *stand) attempt(fn func(c *guarded.Conn, tx *sqlx.Tx) error) error {
	s.Helper()
	c, err := s.pool.Borrow(s.Context())
	if err != nil {
		return err
	}
	defer c.Release()
	bound := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), s.bound)
	}
	tx, err := c.Begin(&session{s}, bound)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended && c.Rollback(tx) != nil {
			c.Discard()
		}
	}()
	err = fn(c, tx)
	ended = true
	if err != nil {
		return errors.Join(err, c.Rollback(tx))
	}
	ctx, cancel := bound()
	defer cancel()
	return c.Commit(ctx, tx)
}

// tx is attempt for a handler that needs no more.
func (s *stand) tx(fn func(tx *sqlx.Tx) error) error {
	s.Helper()
	return s.attempt(func(_ *guarded.Conn, tx *sqlx.Tx) error { return fn(tx) })
}

// wantSent checks what reached the driver since the last call, and that the
// application's pool has its connection back.
func (s *stand) wantSent(want ...string) {
	s.Helper()
	if got := s.f.sent(); !slices.Equal(got, want) {
		s.Errorf("sent %q\nwant %q", got, want)
	}
	s.wantIdle()
}

func (s *stand) wantIdle() {
	s.Helper()
	if n := s.app.Stats().InUse; n != 0 {
		s.Errorf("%d connections in use", n)
	}
	if _, _, most := s.f.counts(); most > 1 {
		s.Errorf("%d statements at once on a driver", most)
	}
}

// wantDoom checks that a commit was refused because of first.
func wantDoom(t *testing.T, err, first error) {
	t.Helper()
	doom, ok := errors.AsType[*guarded.DoomedError](err)
	switch {
	case !ok, !errors.Is(err, guarded.ErrDoomed):
		t.Fatalf("got %v, want a doom", err)
	case !errors.Is(doom.First, first):
		t.Fatalf("doomed by %v, want %v", doom.First, first)
	}
}

func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}

var errFake = errors.New("the fake fails")

// failing answers statements that contain FAIL with errFake.
func failing(c call) error {
	if strings.Contains(c.query, "FAIL") && c.verb != "close" && c.verb != "close rows" {
		return errFake
	}
	return nil
}

func exec(t *testing.T, tx *sqlx.Tx, query string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// The rules of the dialects.
var (
	postgresRules = guarded.Rules{DollarQuotes: true, NestedComments: true, EndCommits: true}
	mysqlRules    = guarded.Rules{Backslash: true, HashComments: true, Executable: true, ImplicitCommit: true}
	sqliteRules   = guarded.Rules{Brackets: true, EndCommits: true}
)

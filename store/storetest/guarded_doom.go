package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// doomScenarios: a handler that swallows an error commits nothing.
func doomScenarios() []scenario {
	return []scenario{
		{name: "B27 a failed statement that the handler swallows", run: swallowed, guarded: everywhere},
		{name: "B28 a deadlock that the handler swallows", on: manyWriters, run: swallowedDeadlock, guarded: unless(onLibpq)},
		{name: "B29 a lock wait that ended and that the handler swallows", on: manyWriters, run: swallowedLockWait, guarded: unless(onLibpq)},
		{name: "C02 a stale snapshot that the handler swallows", on: onMySQL, run: swallowedSnapshot, guarded: everywhere},
		{name: "C04 a statement's own deadline that the handler swallows", run: swallowedDeadline, guarded: everywhere},
		{name: "W25 a statement that rolls back by itself", on: onSQLite, run: orRollback, guarded: everywhere},
		{name: "an argument that cannot be converted", run: badArgument, guarded: everywhere},
		{name: "a savepoint forgives what it undid", run: savepointForgives},
		{name: "a savepoint forgives nothing before it", run: savepointTooLate, guarded: everywhere},
	}
}

// run runs an attempt with fn.
func (p *place) run(c store.Claim, fn func(ctx context.Context, tx *sqlx.Tx) error) (store.Result, error) {
	return p.s.Do(p.Context(), c, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) { return nil, fn(ctx, tx) })
}

// refused runs an attempt that must fail with class and leave nothing, and then
// one that must succeed.
func (p *place) refused(class store.Class, want error, fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	p.Helper()
	_, err := p.run(p.patient("key"), fn)
	if err == nil {
		p.Errorf("the attempt committed")
	}
	if want != nil {
		fails(p, err, want, class)
	} else if got := store.ClassOf(err); err != nil && got != class {
		p.Errorf("the error is %v's, want %v: %v", got, class, err)
	}
	p.holds(0, 0)
	// The server may need a moment to notice that a connection was given up.
	Eventually(p, 0, "the next attempt is processed", func() error {
		_, err := p.do(p.patient("key"))
		return err
	})
	p.holds(1, 1)
	return err
}

func swallowed(t testing.TB, h Harness) {
	p := open(t, h, 2)
	err := p.refused(store.ClassHandler, store.ErrDoomed, func(ctx context.Context, tx *sqlx.Tx) error {
		_, _ = tx.ExecContext(ctx, "INSERT INTO no_such_table VALUES (1)")
		_ = addEffect(ctx, tx, "leaked")
		return nil
	})
	if err != nil && !strings.Contains(err.Error(), "no_such_table") {
		t.Errorf("%q does not name the first failure", err)
	}
}

// accounts makes two rows to fight about.
func (p *place) accounts() {
	p.Helper()
	p.exec("CREATE TABLE accounts (id INT PRIMARY KEY, n INT)")
	p.exec("INSERT INTO accounts VALUES (1, 0), (2, 0)")
}

func touch(ctx context.Context, tx *sqlx.Tx, id int) error {
	_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE accounts SET n = n + 1 WHERE id = ?"), id)
	return err
}

func swallowedDeadlock(t testing.TB, h Harness) {
	p := open(t, h, 4)
	p.accounts()
	first := []chan struct{}{make(chan struct{}), make(chan struct{})}
	errs := make([]error, 2)
	crowd(2, func(i int) {
		_, errs[i] = p.run(p.patient(string(rune('a'+i))), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := touch(ctx, tx, 1+i); err != nil {
				return err
			}
			close(first[i])
			<-first[1-i]
			_ = touch(ctx, tx, 2-i) // one of the two is the victim, and does not care
			_ = addEffect(ctx, tx, "after")
			return nil
		})
	})
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("want one victim, got %v and %v", errs[0], errs[1])
	}
	for _, err := range errs {
		if err != nil && store.ClassOf(err) != store.ClassTransient {
			t.Errorf("a deadlock is nobody's fault, but this is %v's: %v", store.ClassOf(err), err)
		}
	}
	p.holds(1, 1)
}

func swallowedLockWait(t testing.TB, h Harness) {
	p := open(t, h, 4)
	p.accounts()
	blocker, err := p.view().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Rollback() //nolint:errcheck // it changed nothing
	if err := touch(t.Context(), blocker, 1); err != nil {
		t.Fatal(err)
	}
	wait := "SET innodb_lock_wait_timeout = 1"
	if h.Dialect == "postgres" {
		wait = "SET LOCAL lock_timeout = '100ms'"
	}
	p.refused(store.ClassTransient, nil, func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, wait); err != nil {
			return err
		}
		_ = touch(ctx, tx, 1)
		_ = addEffect(ctx, tx, "leaked")
		return nil
	})
}

func swallowedSnapshot(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.accounts()
	s := p.again(1, store.WithIsolation(h.Levels[0]))
	_, err := s.Do(t.Context(), p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if _, err := tx.ExecContext(ctx, "SET innodb_snapshot_isolation = ON"); err != nil {
			return nil, err
		}
		var n int
		if err := tx.GetContext(ctx, &n, "SELECT n FROM accounts WHERE id = 1"); err != nil {
			return nil, err
		}
		p.exec("UPDATE accounts SET n = n + 1 WHERE id = 1")
		if err := touch(ctx, tx, 1); err == nil {
			t.Error("the server did not notice the stale snapshot, so this shows nothing")
		}
		_ = addEffect(ctx, tx, "leaked")
		return nil, nil
	})
	if err == nil || store.ClassOf(err) != store.ClassTransient {
		t.Errorf("want a transient error, got %v", err)
	}
	p.holds(0, 0)
}

// slow is a statement that writes and takes long.
func slow(h Harness) string {
	switch h.Dialect {
	case "postgres":
		return "INSERT INTO effects (name) SELECT 'slow' FROM pg_sleep(2)"
	case "mysql":
		return "INSERT INTO effects (name) SELECT 'slow' FROM (SELECT SLEEP(2)) s"
	default:
		return "INSERT INTO effects (name) WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 100000000) SELECT 'slow' FROM c"
	}
}

func swallowedDeadline(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.refused(store.ClassHandler, nil, func(ctx context.Context, tx *sqlx.Tx) error {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := tx.ExecContext(short, slow(h)); err == nil {
			t.Error("the statement was not slow, so this shows nothing")
		}
		_ = addEffect(ctx, tx, "leaked")
		return nil
	})
}

func orRollback(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.exec("CREATE TABLE business (id INTEGER PRIMARY KEY)")
	p.exec("INSERT INTO business VALUES (1)")
	p.refused(store.ClassHandler, store.ErrDoomed, func(ctx context.Context, tx *sqlx.Tx) error {
		_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO business VALUES (1)")
		_ = addEffect(ctx, tx, "leaked")
		return nil
	})
}

func badArgument(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.refused(store.ClassHandler, store.ErrDoomed, func(ctx context.Context, tx *sqlx.Tx) error {
		_, _ = tx.ExecContext(ctx, tx.Rebind("INSERT INTO effects (name, n) VALUES ('x', ?)"), make(chan int))
		return nil
	})
}

func savepointForgives(t testing.TB, h Harness) {
	p := open(t, h, 2)
	r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "SAVEPOINT try"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO no_such_table VALUES (1)"); err == nil {
			return errors.New("the table exists")
		}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT try"); err != nil {
			return err
		}
		return addEffect(ctx, tx, "kept")
	})
	isNew(t, r, err)
	p.holds(1, 1)
}

func savepointTooLate(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.refused(store.ClassHandler, store.ErrDoomed, func(ctx context.Context, tx *sqlx.Tx) error {
		_, _ = tx.ExecContext(ctx, "INSERT INTO no_such_table VALUES (1)")
		_, _ = tx.ExecContext(ctx, "SAVEPOINT late")
		_, _ = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT late")
		_ = addEffect(ctx, tx, "leaked")
		return nil
	})
}

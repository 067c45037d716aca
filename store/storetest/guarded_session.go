package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// sessionScenarios: what a handler may do with its transaction, and what not.
func sessionScenarios() []scenario {
	return []scenario{
		{name: "the handler calls Commit", run: callsCommit, guarded: everywhere},
		{name: "the handler calls Rollback", run: callsRollback},
		{name: "the handler sends COMMIT", run: sendsCommit, guarded: everywhere},
		{name: "B40 the handler sends DDL that commits", on: func(h Harness) bool { return h.CommitsDDL }, run: sendsDDL, guarded: everywhere},
		{name: "C03 a statement while a Rows is open", run: rowsOpen, guarded: everywhere},
		// Without the guarded connection pgx panics in one of the goroutines, which
		// nobody can recover.
		{name: "C03 four goroutines on one transaction", on: unless(both(isDirect, onPostgres)), run: fourGoroutines},
		{name: "a Rows that is left open", run: rowsLeftOpen},
		{name: "W26 a statement prepared on the application's pool", run: foreignStatement, guarded: everywhere},
		{name: "W26 a statement prepared on the store's handle", run: preparedStatement},
		{name: "B41 the handler's session is as the application set it", on: onPostgres, run: sessionAsSet},
		{name: "B37 a transaction that was not used is told of", run: notUsed, guarded: everywhere},
		{name: "B38 a pool of one that the handler needs too", run: poolOfOne},
		{name: "W21 the pool is as it was after every end", run: poolAsItWas},
		{name: "C08 a statement larger than the server takes", on: onMySQL, run: tooLarge, guarded: everywhere},
	}
}

func callsCommit(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.refused(store.ClassHandler, store.ErrForbidden, func(ctx context.Context, tx *sqlx.Tx) error {
		_ = addEffect(ctx, tx, "leaked")
		if err := tx.Commit(); err == nil {
			t.Error("Commit says that it committed")
		}
		return nil
	})
}

func callsRollback(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.refused(store.ClassHandler, store.ErrForbidden, func(ctx context.Context, tx *sqlx.Tx) error {
		_ = addEffect(ctx, tx, "lost")
		return tx.Rollback()
	})
}

func sendsCommit(t testing.TB, h Harness) {
	p := open(t, h, 2)
	for _, text := range []string{"COMMIT", "-- done\ncommit", "/* ; */ ; COMMIT", "SELECT 1; COMMIT"} {
		_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
			_ = addEffect(ctx, tx, "leaked")
			_, _ = tx.ExecContext(ctx, text)
			return nil
		})
		fails(t, err, store.ErrForbidden, store.ClassHandler)
	}
	p.holds(0, 0)
}

func sendsDDL(t testing.TB, h Harness) {
	p := open(t, h, 2)
	err := p.refused(store.ClassHandler, store.ErrForbidden, func(ctx context.Context, tx *sqlx.Tx) error {
		_ = addEffect(ctx, tx, "leaked")
		_, _ = tx.ExecContext(ctx, "CREATE TABLE early (id INT)")
		return nil
	})
	if err != nil && !strings.Contains(err.Error(), "CREATE TABLE") {
		t.Errorf("%q does not name the statement", err)
	}
	r, err := p.run(p.patient("temporary"), func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TEMPORARY TABLE scratch (id INT)"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DROP TEMPORARY TABLE scratch")
		return err
	})
	isNew(t, r, err)
}

func rowsOpen(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.accounts()
	p.refused(store.ClassHandler, store.ErrBusy, func(ctx context.Context, tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id FROM accounts")
		if err != nil {
			return err
		}
		defer rows.Close()
		rows.Next()
		_ = addEffect(ctx, tx, "missing") // the mistake is not to look at this
		return rows.Err()
	})
}

// fourGoroutines never leave a claim without all effects, and never panics.
func fourGoroutines(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.accounts()
	const rounds, each = 20, 4
	for i := range rounds {
		key := "key" + string(rune('a'+i))
		_, err := p.run(p.patient(key), func(ctx context.Context, tx *sqlx.Tx) error {
			var all sync.WaitGroup
			for range each {
				all.Go(func() {
					if rows, err := tx.QueryContext(ctx, "SELECT id FROM accounts"); err == nil {
						for rows.Next() { //nolint:revive // it only reads
						}
						_ = rows.Close()
						_ = rows.Err()
					}
					_ = addEffect(ctx, tx, key)
				})
			}
			all.Wait()
			return nil
		})
		n := p.number("SELECT COUNT(*) FROM effects WHERE name = ?", key)
		switch {
		case err == nil && n != each:
			t.Errorf("%s: committed with %d effects of %d", key, n, each)
		case err != nil && n != 0:
			t.Errorf("%s: rolled back with %d effects: %v", key, n, err)
		case err != nil && !h.Direct && !errors.Is(err, store.ErrBusy):
			t.Errorf("%s: %v", key, err)
		}
	}
}

func rowsLeftOpen(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.accounts()
	for _, key := range []string{"a", "b", "c"} {
		r, err := p.run(p.patient(key), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := addEffect(ctx, tx, key); err != nil {
				return err
			}
			rows, err := tx.QueryContext(ctx, "SELECT id FROM accounts") //nolint:sqlclosecheck // that is the point
			if err != nil {
				return err
			}
			rows.Next()
			return rows.Err()
		})
		isNew(t, r, err)
	}
	p.holds(3, 3)
}

const addTo = "UPDATE accounts SET n = n + 1 WHERE id = 1"

func foreignStatement(t testing.TB, h Harness) {
	p := open(t, h, 3)
	p.accounts()
	stmt, err := p.s.DB().PreparexContext(t.Context(), addTo)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	_, err = p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.StmtxContext(ctx, stmt).ExecContext(ctx)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "different database") {
		t.Errorf("database/sql does not refuse it: %v", err)
	}
	p.holds(0, 0)
}

func preparedStatement(t testing.TB, h Harness) {
	p := open(t, h, 3)
	p.accounts()
	stmt, err := p.s.Preparer().PreparexContext(t.Context(), addTo)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	for _, key := range []string{"a", "b"} {
		r, err := p.run(p.patient(key), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.StmtxContext(ctx, stmt).ExecContext(ctx)
			return err
		})
		isNew(t, r, err)
	}
	if n := p.number("SELECT n FROM accounts WHERE id = 1"); n != 2 {
		t.Errorf("the statement ran %d times, want 2", n)
	}
}

func sessionAsSet(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.exec("SET lock_timeout = '1234ms'") // the one connection's
	defer p.exec("RESET lock_timeout")
	r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		var bound string
		if err := tx.GetContext(ctx, &bound, "SHOW lock_timeout"); err != nil {
			return err
		}
		if bound != "1234ms" && bound != "0" { // a pooler may have given another session
			t.Errorf("the handler's lock_timeout is %s", bound)
		}
		return addEffect(ctx, tx, "key")
	})
	isNew(t, r, err)
}

func notUsed(t testing.TB, h Harness) {
	p := open(t, h, 2)
	r, err := p.run(p.patient("a"), func(context.Context, *sqlx.Tx) error { return nil })
	isNew(t, r, err)
	if !r.Unused {
		t.Error("a handler that sent nothing is not told of")
	}
	if r, err = p.do(p.patient("b")); err != nil || r.Unused {
		t.Errorf("a handler with an effect: %+v, %v", r, err)
	}
}

// poolOfOne: a handler that waits for a second connection ends with its
// context, and progress resumes.
func poolOfOne(t testing.TB, h Harness) {
	p := open(t, h, 1)
	_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		if err := addEffect(ctx, tx, "key"); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, h.wait())
		defer cancel()
		_, err := p.s.DB().ExecContext(short, "SELECT 1")
		return err
	})
	fails(t, err, context.DeadlineExceeded, store.ClassHandler)
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	p.holds(1, 1)
}

func poolAsItWas(t testing.TB, h Harness) {
	p := open(t, h, 2)
	for name, fn := range map[string]func(ctx context.Context, tx *sqlx.Tx) error{
		"commit":   func(ctx context.Context, tx *sqlx.Tx) error { return addEffect(ctx, tx, "x") },
		"rollback": func(context.Context, *sqlx.Tx) error { return errors.New("not today") },
		"doomed": func(ctx context.Context, tx *sqlx.Tx) error {
			_, _ = tx.ExecContext(ctx, "INSERT INTO no_such_table VALUES (1)")
			return nil
		},
		"refused": func(ctx context.Context, tx *sqlx.Tx) error {
			_, _ = tx.ExecContext(ctx, "COMMIT")
			return nil
		},
		"cancelled": func(ctx context.Context, tx *sqlx.Tx) error {
			short, cancel := context.WithCancel(ctx)
			cancel()
			_, err := tx.ExecContext(short, "INSERT INTO effects (name) VALUES ('x')")
			return err
		},
	} {
		_, _ = p.run(p.patient(name), fn)
		_, _ = p.run(p.patient(name), fn)
		PoolIdle(t, p.s.DB().DB)
	}
}

func tooLarge(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.exec("CREATE TABLE large (b LONGBLOB)")
	var limit int64
	if err := p.view().Get(&limit, "SELECT @@max_allowed_packet"); err != nil {
		t.Fatal(err)
	}
	var before, after int64
	if err := p.s.DB().Get(&before, h.ConnectionID); err != nil {
		t.Fatal(err)
	}
	_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO large VALUES (?)", make([]byte, limit+1))
		return err
	})
	fails(t, err, store.ErrTooLarge, store.ClassPermanent)
	if err != nil && !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("%q does not name the limit", err)
	}
	if err := p.s.DB().Get(&after, h.ConnectionID); err != nil || after != before {
		t.Errorf("the connection was lost (%d, %d): %v", before, after, err)
	}
	p.holds(0, 0)
}

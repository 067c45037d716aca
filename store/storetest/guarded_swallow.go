package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// swallowScenarios: errors of every kind that a handler does not look at.
func swallowScenarios() []scenario {
	return []scenario{
		{name: "B27 an error of every kind that the handler swallows", run: everyKind, guarded: everywhere},
		{name: "B28 a savepoint does not forgive a transaction that is gone", on: endsByItself, run: goneBehindSavepoint, guarded: everywhere},
	}
}

// endsByItself: an error may end the transaction on the server.
func endsByItself(h Harness) bool { return h.Dialect != "postgres" }

// mistake is a failure that a handler makes and does not look at.
type mistake struct {
	name string
	make func(ctx context.Context, tx *sqlx.Tx)
}

// sends is a mistake of one statement.
func sends(name, query string, args ...any) mistake {
	return mistake{name, func(ctx context.Context, tx *sqlx.Tx) { _, _ = tx.ExecContext(ctx, tx.Rebind(query), args...) }}
}

// reads is a mistake of a query, read to its end.
func reads(name, query string) mistake {
	return mistake{name, func(ctx context.Context, tx *sqlx.Tx) {
		rows, err := tx.QueryContext(ctx, query)
		if err != nil {
			return
		}
		defer rows.Close()
		for rows.Next() { // to the failure
		}
		_ = rows.Err()
	}}
}

func mistakes(h Harness) []mistake {
	prepared := func(name, query string) mistake {
		return mistake{name, func(ctx context.Context, tx *sqlx.Tx) {
			if stmt, err := tx.PreparexContext(ctx, tx.Rebind(query)); err == nil {
				_, _ = stmt.ExecContext(ctx)
				_ = stmt.Close()
			}
		}}
	}
	all := []mistake{
		sends("syntax", "INSRT INTO effects VALUES (1)"),
		sends("no table", "INSERT INTO no_such_table VALUES (1)"),
		sends("unique", "INSERT INTO business (id) VALUES (1)"),
		sends("not null", "INSERT INTO business (id) VALUES (NULL)"),
		sends("check", "INSERT INTO business (id, n) VALUES (7, -1)"),
		sends("unique with an argument", "INSERT INTO business (id) VALUES (?)", 1),
		sends("too few arguments", "INSERT INTO business (id, n) VALUES (?, ?)", 1),
		sends("an argument of no type", "INSERT INTO business (id) VALUES (?)", func() {}),
		sends("a savepoint that is not there", "ROLLBACK TO SAVEPOINT nowhere"),
		reads("query", "SELECT * FROM no_such_table"),
		prepared("prepare", "SELECT * FROM no_such_table"),
		prepared("a prepared statement", "INSERT INTO business (id) VALUES (1)"),
		{"a prepared statement with too many arguments", func(ctx context.Context, tx *sqlx.Tx) {
			if stmt, err := tx.PreparexContext(ctx, tx.Rebind("INSERT INTO business (id) VALUES (?)")); err == nil {
				_, _ = stmt.ExecContext(ctx, 1, 2, 3)
			}
		}},
		{"a row", func(ctx context.Context, tx *sqlx.Tx) {
			_ = tx.QueryRowContext(ctx, "SELECT id FROM no_such_table").Scan(new(int))
		}},
	}
	switch h.Dialect {
	case "postgres":
		all = append(all,
			sends("raise", "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$"),
			reads("the third row", "SELECT 1 / (3 - i) FROM generate_series(1, 5) i"),
			sends("lock timeout", "SET LOCAL lock_timeout = '10ms'; LOCK TABLE locked"),
			sends("statement timeout", "SET LOCAL statement_timeout = '10ms'; SELECT pg_sleep(5)"))
	case "mysql":
		all = append(all,
			sends("signal", "SIGNAL SQLSTATE '45000'"),
			sends("bad data", "INSERT INTO business (id) VALUES ('seven')"),
			reads("the second row", "SELECT CASE WHEN id = 2 THEN (SELECT a.id FROM business a WHERE a.id > b.n) ELSE 1 END FROM business b ORDER BY id"),
			sends("statement timeout", "SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(5)"))
	case "sqlite":
		all = append(all,
			sends("or fail", "INSERT OR FAIL INTO business (id) VALUES (8), (1)"),
			sends("W25 or rollback", "INSERT OR ROLLBACK INTO business (id) VALUES (1)"),
			sends("raise abort", "INSERT INTO business (id) VALUES (-1)"),
			sends("raise fail", "INSERT INTO business (id) VALUES (-2)"),
			sends("W25 raise rollback", "INSERT INTO business (id) VALUES (-3)"),
			reads("the second row", "SELECT CASE id WHEN 2 THEN abs(-9223372036854775808) END FROM business ORDER BY id"))
	}
	return all
}

// business makes a table that refuses.
func (p *place) business() {
	p.Helper()
	p.exec("CREATE TABLE business (id INTEGER NOT NULL PRIMARY KEY, n INTEGER DEFAULT 0 CHECK (n >= 0))")
	p.exec("INSERT INTO business (id) VALUES (1), (2), (3)")
	if p.h.Dialect == "sqlite" {
		p.exec(`CREATE TRIGGER refuses BEFORE INSERT ON business WHEN NEW.id < 0 BEGIN
			SELECT CASE NEW.id WHEN -1 THEN RAISE(ABORT, 'no') WHEN -2 THEN RAISE(FAIL, 'no') ELSE RAISE(ROLLBACK, 'no') END; END`)
	}
}

func everyKind(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.business()
	if h.Dialect == "postgres" {
		p.exec("CREATE TABLE locked (n INT)")
		locker, err := p.view().BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Rollback() //nolint:errcheck // it changed nothing
		if _, err := locker.ExecContext(t.Context(), "LOCK TABLE locked"); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range mistakes(h) {
		_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := addEffect(ctx, tx, "before"); err != nil {
				return err
			}
			m.make(ctx, tx)
			if err := addEffect(ctx, tx, "after"); err == nil {
				t.Errorf("%s: the transaction goes on", m.name)
			}
			return nil
		})
		if err == nil || store.ClassOf(err) == store.ClassPermanent {
			t.Errorf("%s: %v", m.name, err)
		} else {
			fails(t, err, store.ErrDoomed, store.ClassOf(err))
		}
		p.holds(0, 0)
	}
	if n := p.number("SELECT COUNT(*) FROM business"); n != 3 {
		t.Errorf("%d rows leaked", n-3)
	}
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

// goneBehindSavepoint: some failures end the transaction on the server. A
// ROLLBACK TO is refused there, and whatever follows would commit by itself.
func goneBehindSavepoint(t testing.TB, h Harness) {
	p := open(t, h, 4)
	p.accounts()
	p.business()
	s := p.s
	if h.Dialect == "mysql" {
		s = p.again(2, store.WithIsolation(h.Levels[0])) // which takes a snapshot
	}
	for i, m := range p.endings() {
		_, err := s.Do(t.Context(), p.patient(fmt.Sprint(i)), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			for _, query := range []string{"SAVEPOINT a", "SELECT n FROM accounts"} {
				if _, err := tx.ExecContext(ctx, query); err != nil {
					return nil, err
				}
			}
			if err := addEffect(ctx, tx, "before"); err != nil {
				return nil, err
			}
			m.make(ctx, tx)
			if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT a"); err == nil {
				t.Errorf("%s: the savepoint is still there, so this shows nothing", m.name)
			}
			if err := addEffect(ctx, tx, "after"); err == nil {
				t.Errorf("%s: the transaction goes on", m.name)
			}
			return nil, nil
		})
		if err == nil {
			t.Errorf("%s: committed", m.name)
		}
		p.holds(0, 0)
	}
	PoolIdle(t, s.DB().DB)
}

// endings are the mistakes that end the transaction.
func (p *place) endings() []mistake {
	if p.h.Dialect == "sqlite" {
		return []mistake{
			sends("W25 or rollback", "INSERT OR ROLLBACK INTO business (id) VALUES (1)"),
			sends("W25 raise rollback", "INSERT INTO business (id) VALUES (-3)"),
			{"C04 interrupt", func(ctx context.Context, tx *sqlx.Tx) {
				// Long enough to be in the middle of it on a busy machine.
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, _ = tx.ExecContext(short, slow(p.h))
			}},
		}
	}
	return []mistake{
		{"B28 deadlock", p.deadlock},
		{"C02 stale snapshot", func(ctx context.Context, tx *sqlx.Tx) {
			if _, err := tx.ExecContext(ctx, "SET innodb_snapshot_isolation = ON"); err != nil {
				p.Error(err)
			}
			p.exec("UPDATE accounts SET n = n + 1 WHERE id = 1")
			_ = touch(ctx, tx, 1)
		}},
	}
}

// deadlock makes tx the victim of one with a transaction that wrote more.
func (p *place) deadlock(ctx context.Context, tx *sqlx.Tx) {
	other, err := p.view().BeginTxx(ctx, nil)
	if err != nil {
		p.Error(err)
		return
	}
	defer other.Rollback() //nolint:errcheck // it only wants to win
	for range 50 {
		if err := addEffect(ctx, other, "heavy"); err != nil {
			p.Error(err)
		}
	}
	if err := touch(ctx, other, 2); err != nil {
		p.Error(err)
	}
	if err := touch(ctx, tx, 1); err != nil {
		p.Error(err)
	}
	won := make(chan error)
	go func() { won <- touch(ctx, other, 1) }()
	if err := touch(ctx, tx, 2); err == nil {
		p.Error("no deadlock")
	}
	if err := <-won; err != nil {
		p.Errorf("the other one lost: %v", err)
	}
}

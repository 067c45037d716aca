package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// endScenarios: what a handler leaves behind when it returns.
func endScenarios() []scenario {
	return []scenario{
		// database/sql itself would wait for such a Rows for ever.
		{name: "a Rows that is left open with RawBytes", on: unless(isDirect), run: rawBytesLeftOpen},
		{name: "B36 panics and Goexits with a Rows open", on: unless(isDirect), run: panicsWithRows},
		{name: "C03 a goroutine that is at work when the handler returns", on: both(wired, unless(isDirect)), run: atWork},
		{name: "C03 a goroutine that never ends", on: both(wired, unless(isDirect)), run: neverEnds},
		{name: "C03 goroutines that take turns", run: takeTurns},
		{name: "W26 prepared queries as sqlc makes them", run: sqlc},
		{name: "statements that are left open do not stay on the server", on: both(onPostgres, unless(isDirect)), run: statementsLeftOpen},
	}
}

// leaveOpen leaves a Rows open, in the middle of a row.
func leaveOpen(ctx context.Context, tx *sqlx.Tx, dest any) error {
	rows, err := tx.QueryContext(ctx, "SELECT id FROM accounts") //nolint:sqlclosecheck,rowserrcheck // that is the point
	if err != nil {
		return err
	}
	if !rows.Next() {
		return errors.New("no row")
	}
	return rows.Scan(dest)
}

func rawBytesLeftOpen(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.accounts()
	boom := errors.New("boom")
	for i, returns := range []error{nil, boom, nil, boom} {
		key := fmt.Sprint(i)
		var left *sql.Rows
		r, err := p.run(p.patient(key), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := addEffect(ctx, tx, key); err != nil {
				return err
			}
			rows, err := tx.QueryContext(ctx, "SELECT id FROM accounts") //nolint:sqlclosecheck // that is the point
			if err != nil {
				return err
			}
			left = rows
			if !rows.Next() {
				return rows.Err()
			}
			if err := rows.Scan(new(sql.RawBytes)); err != nil {
				return err
			}
			return returns
		})
		if returns == nil {
			isNew(t, r, err)
		} else {
			fails(t, err, boom, store.ClassHandler)
		}
		for left.Next() { // it is closed under the handler, long before
			t.Error("a row after the end")
		}
		_ = left.Close()
	}
	p.holds(2, 2)
	PoolIdle(t, p.s.DB().DB)
}

func panicsWithRows(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.accounts()
	for i := range 20 {
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			_, _ = p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
				if err := errors.Join(addEffect(ctx, tx, "leaked"), leaveOpen(ctx, tx, new(int))); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					panic(i)
				}
				goexit()
				return nil
			})
		}()
		if got := <-ended; i%2 == 0 && got != i {
			t.Errorf("the panic that goes on is %v, want %d", got, i)
		}
	}
	p.holds(0, 0)
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

// atWork: the handler returns while the server has a statement of one of its
// goroutines. Who knows what that one wants to write next.
func atWork(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	for i, returns := range []error{nil, errors.New("boom")} {
		trip := w.Hold(Running("INSERT INTO effects"))
		ended := make(chan error, 1)
		_, err := p.run(p.patient(fmt.Sprint(i)), func(ctx context.Context, tx *sqlx.Tx) error {
			go func() {
				_, err := tx.ExecContext(context.WithoutCancel(ctx), "INSERT INTO effects (name) VALUES ('goroutine')")
				ended <- err
			}()
			trip.Await(t)
			time.AfterFunc(100*time.Millisecond, w.Disarm)
			return returns
		})
		if returns == nil {
			returns = store.ErrBusy
		}
		fails(t, err, returns, store.ClassHandler)
		if err := <-ended; err != nil {
			t.Errorf("the statement was not waited for: %v", err)
		}
		p.holds(0, 0)
	}
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

// neverEnds: such a statement keeps its connection, but not the attempt.
func neverEnds(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 2)
	for i, returns := range []error{nil, errors.New("boom")} {
		trip := w.Hold(Running("INSERT INTO effects"))
		ended := make(chan error, 1)
		c := p.patient(fmt.Sprint(i))
		c.Bounds.Commit, c.Bounds.Rollback = 100*time.Millisecond, 100*time.Millisecond
		began := time.Now()
		_, err := p.run(c, func(ctx context.Context, tx *sqlx.Tx) error {
			go func() {
				_, err := tx.ExecContext(context.WithoutCancel(ctx), "INSERT INTO effects (name) VALUES ('goroutine')")
				ended <- err
			}()
			trip.Await(t)
			return returns
		})
		if took := time.Since(began); took > margin {
			t.Errorf("the attempt took %v", took)
		}
		if returns == nil {
			returns = store.ErrBusy
		}
		fails(t, err, returns, store.ClassHandler)
		r, err := p.s.Do(t.Context(), p.patient("key"+c.Key), func(context.Context, *sqlx.Tx) ([]store.Output, error) { return nil, nil })
		isNew(t, r, err) // the other connection is free
		w.Disarm()
		<-ended
	}
	Eventually(t, 0, "the statement's transaction is gone", func() error {
		if n := p.number("SELECT COUNT(*) FROM once_claims"); n != 2 {
			return fmt.Errorf("%d claims", n)
		}
		return nil
	})
	p.holds(2, 0)
	PoolIdle(t, p.s.DB().DB)
}

// takeTurns: many goroutines may use a transaction, when each reads to the end
// and none leaves a Rows open for another.
func takeTurns(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.accounts()
	const goroutines, each = 4, 5
	r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		var turn sync.Mutex
		errs := make([]error, goroutines)
		crowd(goroutines, func(i int) {
			for range each {
				turn.Lock()
				err := tx.SelectContext(ctx, &[]int{}, "SELECT id FROM accounts")
				turn.Unlock()
				errs[i] = errors.Join(errs[i], err)
			}
		})
		// Statements without Rows need no lock of the handler's own.
		crowd(goroutines, func(i int) {
			for range each {
				errs[i] = errors.Join(errs[i], addEffect(ctx, tx, "x"))
			}
		})
		return errors.Join(errs...)
	})
	isNew(t, r, err)
	p.holds(1, goroutines*each)
}

// queries is what sqlc generates with emit_prepared_queries.
type queries struct {
	add, count *sql.Stmt
	tx         *sql.Tx
}

func prepareQueries(ctx context.Context, db *sqlx.DB) (*queries, error) {
	q := &queries{}
	var err error
	if q.add, err = db.PrepareContext(ctx, db.Rebind("INSERT INTO effects (name, n) VALUES (?, ?)")); err != nil {
		return nil, err
	}
	q.count, err = db.PrepareContext(ctx, db.Rebind("SELECT COUNT(*) FROM effects WHERE name = ?"))
	return q, err
}

func (q *queries) withTx(tx *sql.Tx) *queries { return &queries{q.add, q.count, tx} }

func (q *queries) stmt(ctx context.Context, s *sql.Stmt) *sql.Stmt {
	if q.tx == nil {
		return s
	}
	return q.tx.StmtContext(ctx, s)
}

func (q *queries) Add(ctx context.Context, name string) error {
	_, err := q.stmt(ctx, q.add).ExecContext(ctx, name, 1) //nolint:sqlclosecheck // with the transaction
	return err
}

func (q *queries) Count(ctx context.Context, name string) (n int, err error) {
	err = q.stmt(ctx, q.count).QueryRowContext(ctx, name).Scan(&n) //nolint:sqlclosecheck // with the transaction
	return n, err
}

func sqlc(t testing.TB, h Harness) {
	p := open(t, h, 3)
	q, err := prepareQueries(t.Context(), p.s.Preparer())
	if err != nil {
		t.Fatal(err)
	}
	defer q.add.Close()
	defer q.count.Close()
	crowd(12, func(i int) {
		name := fmt.Sprint(i)
		r, err := p.run(p.patient(name), func(ctx context.Context, tx *sqlx.Tx) error {
			inside := q.withTx(tx.Tx)
			if err := inside.Add(ctx, name); err != nil {
				return err
			}
			if n, err := inside.Count(ctx, name); err != nil || n != 1 {
				return fmt.Errorf("%d rows: %w", n, err)
			}
			return inside.Add(ctx, name)
		})
		isNew(t, r, err)
	})
	p.holds(12, 24)
	if n, err := q.Count(t.Context(), "3"); err != nil || n != 2 { // outside, on a connection of its own
		t.Errorf("%d rows: %v", n, err)
	}
	PoolIdle(t, p.s.DB().DB)
}

func statementsLeftOpen(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.accounts()
	standing := func() (n int) {
		// With an argument's number, so that it is not prepared itself anew.
		if err := p.s.DB().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM pg_prepared_statements WHERE statement LIKE '%accounts%'"); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 3 {
		r, err := p.run(p.patient(fmt.Sprint(i)), func(ctx context.Context, tx *sqlx.Tx) error {
			for n := range 5 {
				stmt, err := tx.PrepareContext(ctx, fmt.Sprintf("SELECT id FROM accounts WHERE id <> %d", 10*i+n))
				if err != nil {
					return err
				}
				rows, err := stmt.QueryContext(ctx)
				if err != nil {
					return err
				}
				rows.Next()
				if n%2 == 0 {
					err = stmt.Close() // while the Rows is open
				}
				if err := errors.Join(err, rows.Close(), rows.Err()); err != nil {
					return err
				}
			}
			return addEffect(ctx, tx, "x")
		})
		isNew(t, r, err)
	}
	if n := standing(); n > 1 { // the question itself may be one
		t.Errorf("%d statements are left on the server", n)
	}
}

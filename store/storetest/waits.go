package storetest

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// waits are the bounds of the wait for a copy in flight, and of the wait for a
// connection.
func waits() []scenario {
	return []scenario{
		{name: "B16 duplicates do not pile up behind a slow first attempt", run: pileUp},
		{name: "an unrelated key does not wait for a copy in flight", on: manyWriters, run: unrelated},
		{name: "W22 on one writer an unrelated key waits within its bound", on: func(h Harness) bool { return h.OneWriter }, run: oneWriterWaits},
		{name: "a wait that the database cannot express is refused", on: func(h Harness) bool { return h.MinWait >= time.Second }, run: fractionRefused},
		{name: "B04 a duplicate in flight above read committed", on: levels, run: duplicateInFlight},
		{name: "B04 a rolled back copy above read committed lets one run", on: levels, run: rollbackInFlight},
		{name: "an isolation level that the database has not is refused", run: unknownLevel},
		{name: "B38 an exhausted pool is an error within the bound", run: exhausted},
		{name: "C07 a lock on the table is not a copy in flight", on: both(manyWriters, bounded), run: tableLocked},
	}
}

func levels(h Harness) bool { return len(h.Levels) > 0 }

// bounded is false where only the server's own setting bounds the wait, and
// with it the test's own ALTER.
func bounded(h Harness) bool { return h.wait() <= time.Second }

func pileUp(t testing.TB, h Harness) {
	p := open(t, h, 4)
	slow := p.hold(p.s, p.patient("m1"))
	crowd(5, func(int) {
		began := time.Now()
		_, err := p.s.Do(t.Context(), p.claim("m1"), p.never)
		fails(t, err, store.ErrInFlight, store.ClassTransient)
		// The fifth waits for one of three connections first.
		if took := time.Since(began); took > 2*h.wait()+margin {
			t.Errorf("told %v, waited %v", h.wait(), took)
		}
	})
	if !h.OneWriter {
		r, err := p.do(p.claim("unrelated"))
		isNew(t, r, err)
	}
	r, err := slow.release(nil)
	isNew(t, r, err)
	r, err = p.s.Do(t.Context(), p.claim("m1"), p.never)
	isDuplicate(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

func unrelated(t testing.TB, h Harness) {
	p := open(t, h, 4)
	slow := p.hold(p.s, p.patient("m1"))
	waiting := start(t, p.s, t.Context(), p.patient("m1"), p.never)
	for i := range 5 {
		r, err := p.do(p.claim(fmt.Sprint("other", i)))
		isNew(t, r, err)
	}
	r, err := slow.release(nil)
	isNew(t, r, err)
	r, err = waiting.await(t)
	isDuplicate(t, r, err)
	p.holds(6, 6)
}

// oneWriterWaits: in one store the queue in front of the file bounds the wait,
// in another process the file's lock and the pool's busy timeout do.
func oneWriterWaits(t testing.TB, h Harness) {
	p := open(t, h, 2)
	slow := p.hold(p.s, p.patient("m1"))
	began := time.Now()
	_, err := p.s.Do(t.Context(), p.claim("other"), p.never)
	fails(t, err, store.ErrInFlight, store.ClassTransient)
	if took := time.Since(began); took > h.wait()+margin {
		t.Errorf("told %v, waited %v", h.wait(), took)
	}
	elsewhere := start(t, p.again(2), t.Context(), p.patient("other"), effect("other"))
	r, err := slow.release(nil)
	isNew(t, r, err)
	r, err = elsewhere.await(t)
	isNew(t, r, err)
	p.holds(2, 2)
}

func fractionRefused(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for _, wait := range []time.Duration{time.Millisecond, 999 * time.Millisecond, 1500 * time.Millisecond} {
		c := p.claim("m1")
		c.Wait = wait
		_, err := p.s.Do(t.Context(), c, p.never)
		fails(t, err, store.ErrInvalid, store.ClassPermanent)
		if err := p.s.Validate(c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Validate lets %v pass: %v", wait, err)
		}
	}
}

func duplicateInFlight(t testing.TB, h Harness) {
	for _, level := range h.Levels {
		p := open(t, h, 4, store.WithIsolation(level))
		first := p.hold(p.s, p.patient("m1"))
		second := start(t, p.s, t.Context(), p.patient("m1"), p.never)
		awaitLockWait(p)
		r, err := first.release(nil)
		isNew(t, r, err)
		r, err = second.await(t)
		isDuplicate(t, r, err)
		if h.Dialect == "postgres" && r.Retries == 0 {
			t.Errorf("%v: the serialization failure was not counted", level)
		}
		p.holds(1, 1)
	}
}

func rollbackInFlight(t testing.TB, h Harness) {
	for _, level := range h.Levels {
		p := open(t, h, 4, store.WithIsolation(level))
		first := p.hold(p.s, p.patient("m1"))
		second := start(t, p.s, t.Context(), p.patient("m1"), effect("second"))
		awaitLockWait(p)
		boom := errors.New("boom")
		_, err := first.release(boom)
		fails(t, err, boom, store.ClassHandler)
		r, err := second.await(t)
		isNew(t, r, err)
		p.holds(1, 1)
	}
}

// awaitLockWait waits until somebody on the server waits for a lock.
func awaitLockWait(p *place) {
	p.Helper()
	query := "SELECT COUNT(*) FROM pg_locks l JOIN pg_locks h ON h.transactionid = l.transactionid AND h.granted " +
		"JOIN pg_locks r ON r.pid = h.pid AND r.relation = to_regclass('once_claims') WHERE NOT l.granted"
	if p.h.Dialect == "mysql" {
		// innodb_trx is no help: it shows nothing new to who asks often.
		query = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() " +
			"AND info LIKE '%INSERT INTO%once_claims%' AND time_ms > 50"
	}
	Eventually(p, 0, "the second copy waits for the first", func() error {
		if p.number(query) == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
}

func unknownLevel(t testing.TB, h Harness) {
	p := open(t, h, 1)
	s := h.Again(t, p.s, 1, store.WithIsolation(sql.LevelSnapshot))
	c := p.claim("m1")
	if err := s.Validate(c); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Validate: %v", err)
	}
	_, err := s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrInvalid, store.ClassPermanent)
}

func exhausted(t testing.TB, h Harness) {
	p := open(t, h, 1)
	if _, err := p.s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := p.s.DB().Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := p.patient("m1")
	c.Bounds.Acquire = 100 * time.Millisecond
	began := time.Now()
	_, err = p.s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	if took := time.Since(began); took > c.Bounds.Acquire+margin {
		t.Errorf("told %v, waited %v", c.Bounds.Acquire, took)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := p.do(c)
	isNew(t, r, err)
}

// tableLocked: an ALTER waits behind one handler and everybody else behind the
// ALTER.
func tableLocked(t testing.TB, h Harness) {
	p := open(t, h, 6)
	slow := p.hold(p.s, p.patient("m1"))
	alter, err := h.Again(t, p.s, 1).DB().Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := "SET lock_timeout = '30s'"
	if h.Dialect == "mysql" {
		bound = "SET lock_wait_timeout = 30"
	}
	if _, err := alter.ExecContext(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	id := 0
	if err := alter.GetContext(t.Context(), &id, h.ConnectionID); err != nil {
		t.Fatal(err)
	}
	altered := make(chan error, 1)
	go func() {
		_, err := alter.ExecContext(t.Context(), "ALTER TABLE once_claims ADD COLUMN surprise INT")
		altered <- err
	}()
	tried := 0
	Eventually(t, 0, "a claim meets the lock on the table", func() error {
		tried++
		began := time.Now()
		_, err := p.do(p.claim(fmt.Sprint("other", tried)))
		switch took := time.Since(began); {
		case err == nil:
			return errors.New("the ALTER does not wait yet")
		case took > h.wait()+2*time.Second+margin:
			// PostgreSQL wants the table's lock before it looks at the bound in
			// the claim, so there the bound is the client's: two seconds more.
			t.Errorf("told %v, waited %v", h.wait(), took)
		}
		fails(t, err, store.ErrUnavailable, store.ClassTransient)
		if h.Dialect == "mysql" {
			fails(t, err, store.ErrTableLocked, store.ClassTransient)
		}
		if errors.Is(err, store.ErrInFlight) {
			t.Errorf("it is called a copy in flight: %v", err)
		}
		return nil
	})
	p.view().MustExecContext(t.Context(), fmt.Sprintf(h.Kill, id)) // the migration gives way
	if err := <-altered; err == nil {
		t.Error("the ALTER got its lock under a running handler")
	}
	_ = alter.Close()
	crowd(4, func(w int) {
		for i := range 25 {
			r, err := p.do(p.claim(fmt.Sprintf("later %d %d", w, i)))
			isNew(t, r, err)
		}
	})
	r, err := slow.release(nil)
	isNew(t, r, err)
}

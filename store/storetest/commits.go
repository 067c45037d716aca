package storetest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// commitScenarios are the scenarios of a COMMIT that is refused, or whose answer never
// comes.
func commitScenarios() []scenario {
	return []scenario{
		{name: "B34 the answer to COMMIT is lost", on: wired, run: answerLost},
		{name: "B34 COMMIT itself is lost", on: wired, run: commitLost},
		{name: "a commit that began does not depend on the attempt's context", on: wired, run: cancelledInCommit},
		{name: "a constraint deferred to the commit refuses it", on: defers, run: deferredConstraint},
		{name: "a serialization failure at the commit is transient", on: onPostgres, run: serializationAtCommit},
		{name: "C05 a database that finds the conflict at COMMIT", on: optimistic, run: conflictAtCommit},
		{name: "C05 B08 a refusal in another language is read by its code", on: optimistic, run: refusedInAnotherLanguage},
	}
}

// defers: InnoDB has no constraint that waits for the commit.
func defers(h Harness) bool     { return !onMySQL(h) }
func optimistic(h Harness) bool { return h.Stub != nil && len(h.Refusals) > 0 }

func committing(s Statement) bool {
	return s.Runs() && strings.HasPrefix(strings.ToLower(strings.TrimSpace(s.Text)), "commit")
}

// lost runs an attempt whose COMMIT meets a fault, and its redelivery. Whatever
// the server did, there is one effect.
func lost(t testing.TB, h Harness, fault func(*Wire) *Trip, applied bool) {
	t.Helper()
	p, wire := wiredPlace(t, h, 1)
	trip := fault(wire)
	runs := 0
	handler := func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		runs++
		return nil, addEffect(ctx, tx, "m1")
	}
	r, err := p.s.Do(t.Context(), p.patient("m1"), handler)
	fails(t, err, store.ErrCommitUnknown, store.ClassTransient)
	if r.Duplicate || runs != 1 || trip.Hits() != 1 {
		t.Errorf("%+v after %d runs, and %d faults", r, runs, trip.Hits())
	}
	r, err = p.s.Do(t.Context(), p.patient("m1"), handler)
	if applied {
		isDuplicate(t, r, err)
	} else {
		isNew(t, r, err)
	}
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

func answerLost(t testing.TB, h Harness) {
	lost(t, h, func(w *Wire) *Trip { return w.CutAfter(committing) }, true)
}

func commitLost(t testing.TB, h Harness) {
	lost(t, h, func(w *Wire) *Trip { return w.CutBefore(committing) }, false)
}

func cancelledInCommit(t testing.TB, h Harness) {
	p, wire := wiredPlace(t, h, 1)
	commit := wire.Hold(committing)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := start(t, p.s, ctx, p.patient("m1"), effect("m1"))
	commit.Await(t)
	cancel()
	commit.Release()
	r, err := a.await(t)
	isNew(t, r, err)
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

func deferredConstraint(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.exec("CREATE TABLE parents (id BIGINT PRIMARY KEY)")
	p.exec("CREATE TABLE children (parent BIGINT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
	child := func(id int) store.Func {
		return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			if err := addEffect(ctx, tx, "m1"); err != nil {
				return nil, err
			}
			_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO children VALUES (?)"), id)
			return nil, err
		}
	}
	for range 2 {
		_, err := p.s.Do(t.Context(), p.claim("m1"), child(7))
		fails(t, err, store.ErrCommitRefused, store.ClassHandler)
		p.holds(0, 0)
	}
	p.exec("INSERT INTO parents VALUES (7)")
	r, err := p.s.Do(t.Context(), p.claim("m1"), child(7))
	isNew(t, r, err)
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

// serializationAtCommit: two handlers read what the other one writes; the one
// that commits second is refused, there or at its last statement.
func serializationAtCommit(t testing.TB, h Harness) {
	p := open(t, h, 4, store.WithIsolation(sql.LevelSerializable))
	read, other := make(chan struct{}), make(chan struct{})
	skew := func(name string, ready, wait chan struct{}) store.Func {
		return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			var n int
			if err := tx.GetContext(ctx, &n, "SELECT COUNT(*) FROM effects"); err != nil {
				return nil, err
			}
			if err := addEffect(ctx, tx, name); err != nil {
				return nil, err
			}
			close(ready)
			select {
			case <-wait:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}
	}
	first := start(t, p.s, t.Context(), p.patient("m1"), skew("m1", read, other))
	r, err := p.s.Do(t.Context(), p.patient("m2"), skew("m2", other, read))
	r1, err1 := first.await(t)
	if (err == nil) == (err1 == nil) {
		t.Fatalf("of two that cannot be put in an order, not one was refused: %+v %v, %+v %v", r, err, r1, err1)
	}
	key, refused := "m2", err
	if err == nil {
		key, refused = "m1", err1
	}
	if store.ClassOf(refused) != store.ClassTransient {
		t.Errorf("the refusal is %v's: %v", store.ClassOf(refused), refused)
	}
	p.holds(1, 1)
	r, err = p.do(p.patient(key))
	isNew(t, r, err)
	p.holds(2, 2)
}

// conflictAtCommit: two copies run at once, and the one that commits second is
// told so by COMMIT. It is rolled back, never called a fault of the message,
// and is a duplicate the next time.
func conflictAtCommit(t testing.TB, h Harness) {
	for _, code := range h.Refusals {
		p := open(t, h, 2)
		stub := &Stub{}
		optimist := h.Stub(t, p.s, 1, stub)
		lieAboutClaim(h, stub)
		stub.Tell(Lie{About: "COMMIT", Instead: "ROLLBACK", Answer: Failing(h.Fault(code)), Times: 1})

		first := p.hold(p.s, p.patient("m1"))
		runs := 0
		r, err := optimist.Do(t.Context(), p.patient("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			runs++
			if err := addEffect(ctx, tx, "loser"); err != nil {
				return nil, err
			}
			_, err := first.release(nil)
			return nil, err
		})
		fails(t, err, store.ErrCommitRefused, store.ClassTransient)
		if runs != 1 || r.Duplicate {
			t.Errorf("%s: %d runs, %+v", code, runs, r)
		}
		p.holds(1, 1)
		stub.Stop()
		r, err = optimist.Do(t.Context(), p.patient("m1"), p.never)
		isDuplicate(t, r, err)
		PoolIdle(t, optimist.DB().DB)
	}
}

// lieAboutClaim makes one claim believe that it inserted its row.
func lieAboutClaim(h Harness, stub *Stub) {
	switch h.Dialect {
	case "postgres":
		stub.Tell(Lie{About: "INTO \"once_claims\"", Instead: "SELECT 'once'", Times: 1})
	case "mysql":
		stub.Tell(Lie{About: "BEGIN NOT ATOMIC", Instead: "START TRANSACTION", Times: 1})
		stub.Tell(Lie{About: "INTO `once_claims`", Instead: "DO 0", Times: 1})
	}
}

// refusedInAnotherLanguage: each refusal at COMMIT, and each conflict at the
// claim, is recognised although nobody can read it.
func refusedInAnotherLanguage(t testing.TB, h Harness) {
	p := open(t, h, 2)
	stub := &Stub{}
	s := h.Stub(t, p.s, 1, stub)
	for _, code := range h.Refusals {
		if code == "1062" {
			continue // at the claim it means a duplicate
		}
		stub.Tell(Lie{About: "once_claims", Answer: Failing(h.Fault(code)), Times: 1})
		r, err := s.Do(t.Context(), p.patient(code), effect("x"))
		isNew(t, r, err)
		if r.Retries != 1 {
			t.Errorf("%s at the claim: %d retries", code, r.Retries)
		}
	}
	unknown := map[string]string{"postgres": "XX000", "mysql": "1105"}[h.Dialect]
	stub.Tell(Lie{About: "once_claims", Answer: Failing(h.Fault(unknown)), Times: 1})
	r, err := s.Do(t.Context(), p.claim("unknown"), p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	if r.Duplicate {
		t.Error("an unknown error was taken for a duplicate")
	}
	wait := map[string]string{"postgres": "55P03", "mysql": "1205"}[h.Dialect]
	stub.Tell(Lie{About: "once_claims", Answer: Failing(h.Fault(wait)), Times: 1})
	began := time.Now()
	_, err = s.Do(t.Context(), p.claim("wait"), p.never)
	fails(t, err, store.ErrInFlight, store.ClassTransient)
	if errors.Is(err, store.ErrTableLocked) || time.Since(began) > margin {
		t.Errorf("a wait for a row ended with %v", err)
	}
	r, err = s.Do(t.Context(), p.claim("wait"), effect("x"))
	isNew(t, r, err)
}

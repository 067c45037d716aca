package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// racing are the scenarios in which many want the same key, or many keys at
// once.
func racing() []scenario {
	return []scenario{
		{name: "B03 racers never see an aborted transaction", run: oneWinner},
		{name: "racers of two processes, one winner a key", run: twoPools},
		{name: "B02 two handlers of one message both have their effect", run: twoConsumers},
		{name: "B06 the first of three rolls back, exactly one other runs", on: manyWriters, run: firstRollsBack},
		{name: "B07 W22 B42 different keys do not disturb each other", run: differentKeys},
		{name: "B07 no locking read before the claim's insert", on: wired, run: noLockingRead},
	}
}

// oneWinner: the losers are duplicates without an error, so none of them can
// have met 25P02.
func oneWinner(t testing.TB, h Harness) {
	p := open(t, h, 8)
	race(t, []store.Store{p.s}, p, 3)
}

func twoPools(t testing.TB, h Harness) {
	p := open(t, h, 8)
	race(t, []store.Store{p.s, p.again(8)}, p, 3)
}

func race(t testing.TB, stores []store.Store, p *place, rounds int) {
	t.Helper()
	const n = 16
	for round := range rounds {
		key := fmt.Sprint("m", round)
		var duplicates atomic.Int32
		crowd(n, func(i int) {
			r, err := stores[i%len(stores)].Do(t.Context(), p.patient(key), effect(key))
			if err != nil {
				t.Errorf("a racer ended with %v", err)
			}
			if r.Duplicate {
				duplicates.Add(1)
			}
		})
		if d := duplicates.Load(); d != n-1 {
			t.Errorf("%d of %d racers were duplicates", d, n)
		}
		p.holds(round+1, round+1)
	}
}

func twoConsumers(t testing.TB, h Harness) {
	p := open(t, h, 4)
	consumers := []string{"billing/charge", "billing/mail", "shipping/charge"}
	crowd(len(consumers), func(i int) {
		r, err := p.s.Do(t.Context(), store.Claim{Consumer: consumers[i], Key: "m1"}, effect(consumers[i]))
		isNew(t, r, err)
	})
	p.holds(3, 3)
}

func firstRollsBack(t testing.TB, h Harness) {
	p := open(t, h, 4)
	for round := range 5 {
		key := fmt.Sprint("m", round)
		first := p.hold(p.s, p.patient(key))
		var runs atomic.Int32
		others := make([]*attempt, 2)
		for i := range others {
			others[i] = start(t, p.s, t.Context(), p.patient(key), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
				runs.Add(1)
				return nil, addEffect(ctx, tx, key)
			})
		}
		boom := errors.New("boom")
		_, err := first.release(boom)
		fails(t, err, boom, store.ClassHandler)
		duplicates := 0
		for _, other := range others {
			// A deadlock's victim was tried again, in here.
			r, err := other.await(t)
			if err != nil {
				t.Errorf("a waiter ended with %v", err)
			}
			if r.Duplicate {
				duplicates++
			}
		}
		if runs.Load() != 1 || duplicates != 1 {
			t.Errorf("of two waiters %d ran and %d were duplicates", runs.Load(), duplicates)
		}
		p.holds(round+1, round+1)
	}
}

// differentKeys: an attempt that had to be tried again met a deadlock, or a busy
// database.
func differentKeys(t testing.TB, h Harness) {
	// At the level at which InnoDB locks gaps, where the database has it.
	var opts []store.Option
	if h.CommitsDDL {
		opts = append(opts, store.WithIsolation(h.Levels[0]))
	}
	p := open(t, h, 8, opts...)
	stores := []store.Store{p.s}
	if !h.OneWriter {
		stores = append(stores, p.again(8, opts...))
	}
	const workers, each = 16, 20
	var retries atomic.Int64
	crowd(workers, func(w int) {
		for i := range each {
			key := fmt.Sprintf("%x-%d", (w*each+i)*2654435761%4294967291, i)
			r, err := stores[w%len(stores)].Do(t.Context(), p.patient(key), effect(key))
			isNew(t, r, err)
			retries.Add(int64(r.Retries))
		}
	})
	if n := retries.Load(); n > 0 {
		t.Errorf("%d claims had to be tried again", n)
	}
	p.holds(workers*each, workers*each)
}

func noLockingRead(t testing.TB, h Harness) {
	s, wire := h.Wire(t, 1)
	p := settle(t, h, s)
	r, err := p.do(p.claim("m0"))
	isNew(t, r, err)
	wire.Reset()
	r, err = p.do(p.claim("m1"))
	isNew(t, r, err)
	r, err = p.do(p.claim("m1"))
	isDuplicate(t, r, err)
	for _, s := range wire.Statements() {
		for _, lock := range []string{"FOR UPDATE", "FOR SHARE", "SHARE MODE", "FOR NO KEY", "FOR KEY"} {
			if strings.Contains(strings.ToUpper(s.Text), lock) {
				t.Errorf("the claim's way has a locking read: %v", s)
			}
		}
	}
}

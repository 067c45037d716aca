package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// leasedOutputs: how a relay is handed what nobody sent.
func leasedOutputs() []scenario {
	return []scenario{
		{name: "a lease excludes others until it is over", run: leaseExcludes},
		{name: "a lease takes what is old enough, the oldest first, within its limits", run: leaseLimits},
		{name: "a lease that can never work is refused", run: leaseInvalid},
		{name: "B59 two relays never share an output", run: twoRelays},
		{name: "B57 an output that commits late is found", on: manyWriters, run: lateCommit},
		{name: "a lease waits for nobody's transaction", on: manyWriters, run: leaseWaitsForNobody},
		{name: "B61 an output that nobody can read stops no other", run: unreadable},
		{name: "the outbox ends with its context, and refuses to wait for itself", run: outboxEnds},
	}
}

// hand leases with defaults, and fails unless the outputs are want.
func (p *place) hand(s store.Outbox, l store.Lease, want ...store.OutputID) {
	p.Helper()
	if l.For == 0 {
		l.For = time.Minute
	}
	got, err := s.LeaseUnsent(p.Context(), l)
	if err != nil || !slices.Equal(idsOf(got), want) {
		p.Errorf("%+v hands out %v, want %v: %v", l, idsOf(got), want, err)
	}
}

func leaseExcludes(t testing.TB, h Harness) {
	p := open(t, h, 4)
	all := made(3)
	ids := idsOf(p.produce("m1", all...))
	got, err := p.s.LeaseUnsent(t.Context(), store.Lease{For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	alike(t, got, all)
	other := p.again(2)
	p.hand(other, store.Lease{})
	later := p.again(2, ago(-59*time.Second))
	p.hand(later, store.Lease{})
	p.hand(p.again(2, ago(-61*time.Second)), store.Lease{}, ids...)
	// That one leased them until 121 s from now.
	p.hand(p.again(2, ago(-119*time.Second)), store.Lease{})
	p.hand(p.again(2, ago(-123*time.Second)), store.Lease{Limit: 1}, ids[0])
}

func leaseLimits(t testing.TB, h Harness) {
	p := open(t, h, 4)
	var ids []store.OutputID
	for i, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour, 0} {
		all := made(2)
		all[0].Payload, all[1].Payload = make([]byte, 1000), make([]byte, 1000)
		r, err := p.again(2, ago(age)).Do(t.Context(), p.patient(fmt.Sprint(i)), produces("x", all...))
		isNew(t, r, err)
		ids = append(ids, idsOf(r.Unsent)...)
	}
	p.hand(p.s, store.Lease{Older: 4 * time.Hour})
	p.hand(p.s, store.Lease{Limit: 3}, ids[:3]...)
	// Room for two and a half.
	p.hand(p.s, store.Lease{Older: 90 * time.Minute, Bytes: 2500}, ids[3])
	p.hand(p.s, store.Lease{Older: 30 * time.Minute, Bytes: 100}, ids[4]) // alone
	p.hand(p.s, store.Lease{Older: 30 * time.Minute}, ids[5])
	p.hand(p.s, store.Lease{}, ids[6:]...)
	p.hand(p.s, store.Lease{})
	b, err := p.s.Backlog(t.Context())
	if err != nil || b.Unsent != 8 || b.Dead != 0 || b.Oldest < 2*time.Hour || b.Oldest > 4*time.Hour {
		t.Errorf("the backlog is %+v: %v", b, err)
	}
	if err := p.s.MarkSent(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if b, err = p.s.Backlog(t.Context()); err != nil || b != (store.Backlog{}) {
		t.Errorf("an empty backlog is %+v: %v", b, err)
	}
}

func leaseInvalid(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for _, l := range []store.Lease{{}, {For: -1}, {For: 1, Limit: -1}, {For: 1, Bytes: -1}, {For: 1, Older: -1}} {
		_, err := p.s.LeaseUnsent(t.Context(), l)
		fails(t, err, store.ErrInvalid, store.ClassPermanent)
	}
	_, err := p.s.DeadOutputs(t.Context(), 0)
	fails(t, err, store.ErrInvalid, store.ClassPermanent)
	fails(t, p.s.Postpone(t.Context(), store.Failure{ID: 1, After: -1}), store.ErrInvalid, store.ClassPermanent)
}

// twoRelays share the outputs while handlers make more.
func twoRelays(t testing.TB, h Harness) {
	p := open(t, h, 8)
	const claims, each = 30, 5
	var mu sync.Mutex
	handed := map[store.OutputID]int{}
	var produced atomic.Int64
	relay := func(s *store.SQL) {
		for {
			done := produced.Load() == claims
			got, err := s.LeaseUnsent(t.Context(), store.Lease{For: time.Hour, Limit: 7})
			if err != nil {
				t.Errorf("lease: %v", err)
				return
			}
			mu.Lock()
			for _, o := range got {
				handed[o.ID]++
			}
			mu.Unlock()
			if done && len(got) == 0 {
				return
			}
		}
	}
	relays := []*store.SQL{p.again(2), p.again(2)}
	crowd(4, func(i int) {
		if i < 2 {
			relay(relays[i])
			return
		}
		for n := i - 2; n < claims; n += 2 {
			key := fmt.Sprint(n)
			c := p.patient(key)
			c.Wait = 30 * time.Second
			if _, err := p.s.Do(t.Context(), c, produces(key, made(each)...)); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			produced.Add(1)
		}
	})
	for id, n := range handed {
		if n != 1 {
			t.Errorf("%d was handed out %d times", id, n)
		}
	}
	if len(handed) != claims*each {
		t.Errorf("%d of %d were handed out", len(handed), claims*each)
	}
}

func lateCommit(t testing.TB, h Harness) {
	p := open(t, h, 4)
	// The late one has a smaller id and is older, and is not there yet.
	db := p.view()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it was committed
	now := map[string]string{"postgres": "clock_timestamp() - interval '1 hour'", "mysql": "UTC_TIMESTAMP(6) - INTERVAL 1 HOUR"}[h.Dialect]
	if _, err := tx.ExecContext(t.Context(), db.Rebind("INSERT INTO once_outputs (id, consumer, "+column(h)+", ordinal, returned, size, uuid, topic, metadata, payload, created_at) "+
		"VALUES (1, ?, ?, 0, (1 = 1), 0, ?, ?, ?, ?, "+now+")"),
		consumer, store.EncodeKey("late"), []byte("u"), []byte("t"), store.EncodeMetadata(nil), []byte("p")); err != nil {
		t.Fatal(err)
	}
	early := idsOf(p.produce("early", made(1)...))
	p.hand(p.s, store.Lease{}, early...)
	p.hand(p.s, store.Lease{})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	p.hand(p.s, store.Lease{}, 1)
}

// leaseWaitsForNobody: neither for an attempt that has not committed, nor for
// somebody who holds a row.
func leaseWaitsForNobody(t testing.TB, h Harness) {
	p := open(t, h, 8)
	ids := idsOf(p.produce("m1", made(3)...))
	tx, err := p.view().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it changes nothing
	if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE once_outputs SET attempts = 7 WHERE id = %d", ids[1])); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.hand(p.s, store.Lease{}, ids[0], ids[2])
	if took := time.Since(began); took > margin {
		t.Errorf("it took %s", took)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	p.hand(p.s, store.Lease{}, ids[1])
}

func unreadable(t testing.TB, h Harness) {
	p := open(t, h, 4)
	ids := idsOf(p.produce("m1", made(3)...))
	p.exec("UPDATE once_outputs SET metadata = ? WHERE id = ?", []byte(`{"a": "b"}`), int64(ids[1]))
	r, err := p.s.Do(t.Context(), p.asking("m1"), p.never)
	isDuplicate(t, r, err)
	if !slices.Equal(idsOf(r.Unsent), []store.OutputID{ids[0], ids[2]}) {
		t.Errorf("a duplicate has %v of %v", idsOf(r.Unsent), ids)
	}
	p.hand(p.s, store.Lease{}, ids[0], ids[2])
	dead, err := p.s.DeadOutputs(t.Context(), 10)
	if err != nil || len(dead) != 1 || dead[0].ID != ids[1] || dead[0].Reason == "" || dead[0].UUID != "uuid 1" {
		t.Errorf("dead are %+v: %v", dead, err)
	}
}

func outboxEnds(t testing.TB, h Harness) {
	p := open(t, h, 4)
	ids := idsOf(p.produce("m1", made(1)...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, lease := p.s.LeaseUnsent(ctx, store.Lease{For: time.Minute})
	_, backlog := p.s.Backlog(ctx)
	_, dead := p.s.DeadOutputs(ctx, 1)
	for _, err := range []error{lease, backlog, dead, p.s.MarkSent(ctx, ids...), p.s.Postpone(ctx, store.Failure{ID: ids[0]})} {
		if !errors.Is(err, context.Canceled) || store.ClassOf(err) != store.ClassTransient {
			t.Errorf("with a context that ended: %v", err)
		}
	}
	p.outputs(1)
	if h.OneWriter {
		_, err := p.s.Do(t.Context(), p.patient("m2"), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
			return nil, p.s.MarkSent(ctx, ids...)
		})
		fails(t, err, store.ErrNested, store.ClassPermanent)
	}
	PoolIdle(t, p.s.DB().DB)
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// relayedOutputs: relays beside each other, and beside those who write.
func relayedOutputs() []scenario {
	return []scenario{
		{name: "B57 two relays beside writers of random latency miss nothing and share nothing", run: twoRelays},
		{name: "B57 an output that commits late is found", on: manyWriters, run: lateCommit},
		{name: "a lease waits for nobody's transaction", on: manyWriters, run: leaseWaitsForNobody},
		{name: "B61 an output that nobody can read stops no other", run: unreadable},
	}
}

// twoRelays share the outputs while handlers that take their time make more: an
// id is taken before the handler's last statement is, and seen when it commits.
func twoRelays(t testing.TB, h Harness) {
	p := open(t, h, 10)
	writers, claims, each := 8, 50, 3
	if h.OneWriter {
		writers, claims = 2, 10 // nobody writes beside another
	}
	var committed atomic.Int64
	handed := make([]map[store.OutputID]int, 2)
	crowd(writers+len(handed), func(i int) {
		if i < len(handed) {
			handed[i] = drain(t, p.again(2), func() bool { return committed.Load() == int64(claims) })
			return
		}
		for n := i - len(handed); n < claims; n += writers {
			p.slowly(fmt.Sprint(n), made(each)...)
			committed.Add(1)
		}
	})
	all := map[store.OutputID]int{}
	for _, ids := range handed {
		for id, n := range ids {
			if all[id] += n; all[id] != 1 {
				t.Errorf("%d was handed out %d times", id, all[id])
			}
		}
	}
	if len(all) != claims*each {
		t.Errorf("%d of %d were handed out", len(all), claims*each)
	}
}

// drain leases until there is nothing more and done said so before, and counts
// how often each output was handed out.
func drain(t testing.TB, s store.Outbox, done func() bool) map[store.OutputID]int {
	t.Helper()
	handed := map[store.OutputID]int{}
	for {
		last := done()
		got, err := s.LeaseUnsent(t.Context(), store.Lease{For: time.Hour, Limit: 7})
		if errors.Is(err, store.ErrUnavailable) && t.Context().Err() == nil {
			continue // the writers of another process had the one file for too long
		}
		if err != nil {
			t.Errorf("lease: %v", err)
			return handed
		}
		for _, o := range got {
			handed[o.ID]++
		}
		if last && len(got) == 0 {
			return handed
		}
	}
}

// slowly runs an attempt whose handler takes a random time.
func (p *place) slowly(key string, outputs ...store.Output) {
	p.Helper()
	c := p.patient(key)
	c.Wait = 30 * time.Second
	_, err := p.s.Do(p.Context(), c, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		err := addEffect(ctx, tx, key)
		time.Sleep(rand.N(10 * time.Millisecond)) //nolint:forbidigo // the latency itself
		return outputs, err
	})
	if err != nil {
		p.Errorf("%s: %v", key, err)
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

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// purging are the scenarios of what a purge takes and leaves. Those about its
// clock, and beside claims, are in traps_purge.go.
func purging() []scenario {
	return []scenario{
		{name: "a purge takes what is older than the retention, and only that", run: purgesOld},
		{name: "B69 a purge stops between two batches when its context ends", on: stubbed, run: purgeStops},
		{name: "C17 B69 four purgers at once", run: fourPurgers},
	}
}

func purgesOld(t testing.TB, h Harness) {
	p := open(t, h, 8)
	p.claims("old", 25, ago(16*24*time.Hour))
	p.claims("young", 10, ago(14*24*time.Hour))
	// 25 of 35 are not nearly all.
	n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention, Batch: 10})
	if n != 25 || err != nil {
		t.Errorf("%d were purged: %v", n, err)
	}
	p.holds(10, 35)
	r, err := p.s.Do(t.Context(), p.claim("young 1"), p.never)
	isDuplicate(t, r, err)
	if days := r.Age.Hours() / 24; days < 13.9 || days > 14.1 {
		t.Errorf("the age is %v, want 14 days", r.Age)
	}
	r, err = p.do(p.claim("old 1"))
	isNew(t, r, err)
	if n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention}); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
}

func purgeStops(t testing.TB, h Harness) {
	p := open(t, h, 4)
	p.claims("old", 30, ago(16*24*time.Hour))
	p.claims("new", 30)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stub := &Stub{}
	deletes := stub.Tell(Lie{About: "DELETE", After: 1, Answer: func(err error) error {
		cancel()
		return err
	}})
	n, err := h.Stub(t, p.s, 1, stub).Purge(ctx, store.Purge{Retention: retention, Batch: 5})
	if n < 5 || n > 10 || !errors.Is(err, context.Canceled) || stub.Told(deletes) != 1 {
		t.Errorf("%d were purged, %v; %d more batches were begun", n, err, stub.Told(deletes))
	}
	if left := p.number("SELECT COUNT(*) FROM once_claims"); left != 60-int(n) {
		t.Errorf("%d claims are left after %d were purged", left, n)
	}
}

func fourPurgers(t testing.TB, h Harness) {
	p := open(t, h, 4)
	p.claims("old", 60, ago(16*24*time.Hour))
	p.claims("new", 40)
	purgers := make([]*store.SQL, 4)
	for i := range purgers {
		purgers[i] = p.again(2)
	}
	var deleted atomic.Int64
	crowd(len(purgers), func(i int) {
		n, err := purgers[i].Purge(t.Context(), store.Purge{Retention: retention, Batch: 5})
		if err != nil {
			t.Errorf("purger %d: %v", i, err)
		}
		deleted.Add(n)
	})
	// Who met another one stopped; whoever was last was not met.
	n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention})
	if deleted.Add(n) != 60 || err != nil {
		t.Error(fmt.Errorf("%d were purged, want 60: %w", deleted.Load(), err))
	}
	p.holds(40, 100)
}

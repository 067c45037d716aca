package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// leftOutputs: outputs that are left behind their attempt.
func leftOutputs() []scenario {
	return []scenario{
		{name: "a duplicate has the outputs that were not marked as sent", run: leftForDuplicate},
		{name: "a key that was used for another payload has the outputs too", run: leftForReused},
		{name: "marking thousands, twice, and those that are gone", run: marksMany},
		{name: "forget takes the outputs with the claim", run: forgetsOutputs},
		{name: "a purge keeps claims with outputs, dead ones too", run: purgeKeepsOutputs},
	}
}

func leftForDuplicate(t testing.TB, h Harness) {
	p := open(t, h, 4)
	all := made(5)
	kept := p.produce("m1", all...)
	p.produce("m2", made(2)...)
	if err := p.s.MarkSent(t.Context(), kept[1].ID, kept[3].ID); err != nil {
		t.Fatal(err)
	}
	// A lease does not hide an output from its own duplicate, but death does.
	if _, err := p.s.LeaseUnsent(t.Context(), store.Lease{For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := p.s.Postpone(t.Context(), store.Failure{ID: kept[4].ID, Dead: true}); err != nil {
		t.Fatal(err)
	}
	r, err := p.s.Do(t.Context(), p.asking("m1"), p.never)
	isDuplicate(t, r, err)
	alike(t, r.Unsent, []store.Output{all[0], all[2]})
	if r, err = p.s.Do(t.Context(), p.patient("m1"), p.never); err != nil || r.Unsent != nil {
		t.Errorf("a duplicate that does not ask has %d outputs: %v", len(r.Unsent), err)
	}
	if err := p.s.MarkSent(t.Context(), kept[0].ID, kept[2].ID); err != nil {
		t.Fatal(err)
	}
	r, err = p.s.Do(t.Context(), p.asking("m1"), p.never)
	isDuplicate(t, r, err)
	alike(t, r.Unsent, nil)
	p.outputs(3)
	PoolIdle(t, p.s.DB().DB)
}

func leftForReused(t testing.TB, h Harness) {
	p := open(t, h, 4)
	c := p.asking("m1")
	c.Fingerprint = []byte("one")
	r, err := p.s.Do(t.Context(), c, produces("m1", made(2)...))
	isNew(t, r, err)
	c.Fingerprint = []byte("two")
	r, err = p.s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrKeyReused, store.ClassPermanent)
	alike(t, r.Unsent, made(2))
}

func marksMany(t testing.TB, h Harness) {
	p := open(t, h, 4)
	ids := idsOf(p.produce("m1", made(2500)...))
	kept := p.produce("m2", made(1)...)
	slices.Reverse(ids)
	for range 2 {
		if err := p.s.MarkSent(t.Context(), append(ids, 1, 2, 3)...); err != nil {
			t.Fatal(err)
		}
		p.outputs(1)
	}
	if err := p.s.MarkSent(t.Context()); err != nil {
		t.Error(err)
	}
	p.outputs(1)
	if err := p.s.MarkSent(t.Context(), idsOf(kept)...); err != nil {
		t.Fatal(err)
	}
	p.outputs(0)
}

func forgetsOutputs(t testing.TB, h Harness) {
	p := open(t, h, 4)
	p.produce("m1", made(3)...)
	p.produce("m2", made(1)...)
	if forgot, err := p.s.Forget(t.Context(), consumer, "m1"); !forgot || err != nil {
		t.Fatalf("%v, %v", forgot, err)
	}
	p.outputs(1)
	p.produce("m1", made(2)...) // with the ordinals of those that are gone
	p.outputs(3)
}

func purgeKeepsOutputs(t testing.TB, h Harness) {
	p := open(t, h, 4)
	old := p.again(4, ago(16*24*time.Hour))
	p.claims("old", 3, ago(16*24*time.Hour))
	var kept []store.Output
	for _, key := range []string{"unsent", "dead"} {
		r, err := old.Do(t.Context(), p.patient(key), produces(key, made(2)...))
		isNew(t, r, err)
		kept = append(kept, r.Unsent...)
	}
	if err := p.s.Postpone(t.Context(), store.Failure{ID: kept[2].ID, Dead: true}, store.Failure{ID: kept[3].ID, Dead: true}); err != nil {
		t.Fatal(err)
	}
	purge := func(want int64) {
		t.Helper()
		if n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention, Confirm: true}); n != want || err != nil {
			t.Errorf("%d were purged, want %d: %v", n, want, err)
		}
	}
	purge(3)
	for _, key := range []string{"unsent", "dead"} {
		r, err := p.s.Do(t.Context(), p.patient(key), p.never)
		isDuplicate(t, r, err)
	}
	if err := p.s.MarkSent(t.Context(), kept[0].ID, kept[1].ID); err != nil {
		t.Fatal(err)
	}
	purge(1)
	if n, err := p.s.DropOutputs(t.Context(), kept[2].ID, kept[3].ID); n != 2 || err != nil {
		t.Errorf("%d were dropped: %v", n, err)
	}
	purge(1)
}

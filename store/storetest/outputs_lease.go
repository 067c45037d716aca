package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		{name: "a lease is of its services' outputs only", run: leaseOfServices},
		{name: "a lease that can never work is refused", run: leaseInvalid},
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

// leaseOfServices: names that begin alike, or compare alike in some collations,
// are others.
func leaseOfServices(t testing.TB, h Harness) {
	p := open(t, h, 4)
	ids := map[string]store.OutputID{}
	for _, name := range []string{"svc/h", "svc/z", "svcs/h", "Svc/h", "svc-2/h", "svcé/h"} {
		c := p.patient(name)
		c.Consumer = name
		r, err := p.s.Do(t.Context(), c, produces(name, made(1)...))
		isNew(t, r, err)
		ids[name] = r.Unsent[0].ID
	}
	p.hand(p.s, store.Lease{Services: []string{"sv", "vc", "none"}})
	p.hand(p.s, store.Lease{Services: []string{"svc"}}, ids["svc/h"], ids["svc/z"])
	p.hand(p.s, store.Lease{Services: []string{"svcé", "Svc"}}, ids["Svc/h"], ids["svcé/h"])
	p.hand(p.s, store.Lease{}, ids["svcs/h"], ids["svc-2/h"])
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

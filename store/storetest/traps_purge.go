package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// purgeSafetyScenarios: a purge that disturbs nobody, and one that is wrong.
func purgeSafetyScenarios() []scenario {
	return []scenario{
		{name: "B69 a purge while others claim", run: purgeWhileClaiming},
		{name: "B69 one purger at a time", on: manyWriters, run: onePurger},
		{name: "a purge ends with its context", run: purgeEnds},
		{name: "C21 a database's clock that jumped ahead", run: clockAhead},
		{name: "C21 a clock that jumped before anybody purged", run: clockAheadAtFirst},
		{name: "C21 a clock that went back", run: clockBack},
	}
}

const retention = 15 * 24 * time.Hour

// claims makes n claims, as of now if that is given.
func (p *place) claims(prefix string, n int, opts ...store.Option) {
	p.Helper()
	s := p.s
	if len(opts) > 0 {
		s = p.again(8, opts...)
	}
	var next atomic.Int64
	crowd(8, func(int) {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			if _, err := s.Do(p.Context(), store.Claim{Consumer: consumer, Key: fmt.Sprintf("%s %d", prefix, i), Wait: 30 * time.Second}, effect(prefix)); err != nil {
				p.Errorf("claim %s %d: %v", prefix, i, err)
			}
		}
	})
}

func ago(d time.Duration) store.Option {
	return store.WithNow(func() time.Time { return time.Now().Add(-d) })
}

func purgeWhileClaiming(t testing.TB, h Harness) {
	p := open(t, h, 8)
	const old = 200
	p.claims("old", old, ago(20*24*time.Hour))
	var purging sync.WaitGroup
	var deleted atomic.Int64
	for range 2 { // two replicas
		purger := p.again(2)
		purging.Go(func() {
			// Confirm: it would take nearly all, and nobody has purged before.
			n, err := purger.Purge(t.Context(), store.Purge{Retention: retention, Batch: 20, Confirm: true})
			if err != nil {
				t.Errorf("purge: %v", err)
			}
			deleted.Add(n)
		})
	}
	p.claims("new", 100) // none of them fails
	purging.Wait()
	// A purger that met the other one has left the rest to it, or to the next.
	n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention, Confirm: true})
	if err != nil || deleted.Add(n) != old {
		t.Errorf("%d were purged, want %d: %v", deleted.Load(), old, err)
	}
	p.holds(100, old+100)
}

func onePurger(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.claims("old", 5, ago(20*24*time.Hour))
	other, err := p.view().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback() //nolint:errcheck // it changes nothing
	if _, err := other.ExecContext(t.Context(), "SELECT * FROM once_state WHERE name = 'purge' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention}); n != 0 || err != nil {
		t.Errorf("beside another purger: %d, %v", n, err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention}); n != 5 || err != nil {
		t.Errorf("after it: %d, %v", n, err)
	}
}

func purgeEnds(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.claims("old", 5, ago(20*24*time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := p.s.Purge(ctx, store.Purge{Retention: retention}); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %d, %v", n, err)
	}
	p.holds(5, 5)
}

// suspicious fails unless a purge stops and deletes nothing.
func (p *place) suspicious(s *store.SQL) {
	p.Helper()
	before := p.number("SELECT COUNT(*) FROM once_claims")
	n, err := s.Purge(p.Context(), store.Purge{Retention: retention, Batch: 5})
	if n != 0 || !errors.Is(err, store.ErrPurgeSuspicious) {
		p.Errorf("want a purge that stops, got %d and %v", n, err)
	}
	if after := p.number("SELECT COUNT(*) FROM once_claims"); after != before {
		p.Errorf("%d claims were deleted", before-after)
	}
}

func clockAhead(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.claims("new", 10)
	if n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention}); n != 0 || err != nil {
		t.Fatalf("a purge in time: %d, %v", n, err)
	}
	ahead := p.again(2, ago(-20*24*time.Hour))
	p.suspicious(ahead)
	p.suspicious(ahead)
	if n, err := p.s.Purge(t.Context(), store.Purge{Retention: retention}); n != 0 || err != nil {
		t.Errorf("when the clock is right again: %d, %v", n, err)
	}
	if n, err := ahead.Purge(t.Context(), store.Purge{Retention: retention, Confirm: true}); n != 10 || err != nil {
		t.Errorf("when an operator confirms: %d, %v", n, err)
	}
}

func clockAheadAtFirst(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.claims("new", 10)
	p.suspicious(p.again(2, ago(-20*24*time.Hour)))
}

func clockBack(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.claims("new", 10)
	back := p.again(2, ago(24*time.Hour))
	for _, s := range []*store.SQL{p.s, back, p.s} {
		if n, err := s.Purge(t.Context(), store.Purge{Retention: retention, Batch: 5}); n != 0 || err != nil {
			t.Errorf("purge: %d, %v", n, err)
		}
	}
	r, err := back.Do(t.Context(), p.patient("new 1"), p.never)
	isDuplicate(t, r, err)
	if r.Age < 0 {
		t.Errorf("the age is %s", r.Age)
	}
}

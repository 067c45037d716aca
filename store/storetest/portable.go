package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// portable is a scenario that needs nothing but a Store. wait is the shortest
// claim wait that it takes.
type portable struct {
	name string
	// seen: a scenario over SQL shows the same, and looks into the database too.
	seen bool
	run  func(t testing.TB, s store.Store, wait time.Duration)
}

// RunStore holds any [store.Store] to the part of the contract that can be seen
// from outside: open returns an empty one, safe for concurrent use, that takes
// a claim wait of one second. A store over SQL with a dialect of its own can do
// more: see [Run].
func RunStore(t *testing.T, open func(t testing.TB) store.Store) {
	t.Helper()
	for _, p := range portables() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t, open(t), time.Second)
		})
	}
}

// portableScenarios are the portable ones that a harness is to run.
func portableScenarios() []scenario {
	var scenarios []scenario
	for _, p := range portables() {
		if p.seen {
			continue
		}
		scenarios = append(scenarios, scenario{name: p.name, run: func(t testing.TB, h Harness) {
			p.run(t, open(t, h, 8).s, h.wait())
		}})
	}
	return scenarios
}

func portables() []portable { return append(portableClaims(), portableOutputs()...) }

func portableClaims() []portable {
	return []portable{
		{name: "a first attempt runs, the next one is a duplicate", run: firstThenDuplicate},
		{name: "B02 B19 consumers do not share keys", run: consumersApart},
		{name: "B12 a failed attempt leaves no claim", seen: true, run: failedLeavesNothing},
		{name: "a panic goes on and leaves no claim", seen: true, run: panicGoesOn},
		{name: "a Goexit leaves no claim", seen: true, run: goexitLeavesNothing},
		{name: "the handler's context is the caller's, inside an attempt", run: contextOfHandler},
		{name: "an attempt inside an attempt is refused", seen: true, run: nestedRefused},
		{name: "a claim that can never work is refused", run: invalidRefused},
		{name: "another payload under a key is refused", run: fingerprints},
		{name: "C25 two producers make the same ids", run: twoProducers},
		{name: "B16 a copy in flight is waited for within the bound", seen: true, run: inFlight},
		{name: "a copy that commits makes the waiting one a duplicate", seen: true, run: waitsForCommit},
		{name: "a copy that rolls back lets the waiting one run", seen: true, run: waitsForRollback},
		{name: "B03 sixteen racers, one winner", seen: true, run: racers},
		{name: "an attempt that is cancelled before the handler says yes is transient", seen: true, run: cancelled},
		{name: "an attempt whose time is over does not run", run: cancelledBefore},
		{name: "a deadline inside the handler is the handler's error", seen: true, run: deadline},
		{name: "what is purged may run again", run: purgeAll},
		{name: "B13 a retention that is not positive is refused", run: purgeInvalid},
	}
}

func portableClaim(key string) store.Claim { return store.Claim{Consumer: consumer, Key: key} }

// nothing is a handler that does nothing and counts.
func nothing(runs *int) store.Func {
	return func(context.Context, *sqlx.Tx) ([]store.Output, error) {
		*runs++
		return nil, nil
	}
}

// mustNotRun is a handler that must not run.
func mustNotRun(t testing.TB) store.Func {
	return func(context.Context, *sqlx.Tx) ([]store.Output, error) {
		t.Error("the handler ran")
		return nil, errors.New("must not run")
	}
}

func firstThenDuplicate(t testing.TB, s store.Store, _ time.Duration) {
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
	if r.Retries != 0 || !r.ClaimedAt.IsZero() || r.Age != 0 {
		t.Errorf("a first attempt says %+v", r)
	}
	for range 2 {
		r, err = s.Do(t.Context(), portableClaim("m1"), mustNotRun(t))
		isDuplicate(t, r, err)
		if r.ClaimedAt.IsZero() || r.Age < 0 || r.Age > time.Hour {
			t.Errorf("claimed at %v, %v ago", r.ClaimedAt, r.Age)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func consumersApart(t testing.TB, s store.Store, _ time.Duration) {
	runs := 0
	consumers := []string{"billing/charge", "billing/mail", "shipping/charge", "Billing/charge", "billing/chargé", "billing/charge "}
	for _, c := range consumers {
		r, err := s.Do(t.Context(), store.Claim{Consumer: c, Key: "m1"}, nothing(&runs))
		isNew(t, r, err)
	}
	if runs != len(consumers) {
		t.Errorf("%d of %d consumers ran", runs, len(consumers))
	}
}

func failedLeavesNothing(t testing.TB, s store.Store, _ time.Duration) {
	boom, runs := errors.New("boom"), 0
	fails2 := func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
		if runs++; runs <= 2 {
			return nil, boom
		}
		return nil, nil
	}
	for range 2 {
		r, err := s.Do(t.Context(), portableClaim("m1"), fails2)
		fails(t, err, boom, store.ClassHandler)
		if r.Duplicate {
			t.Error("a failed attempt is a duplicate")
		}
	}
	r, err := s.Do(t.Context(), portableClaim("m1"), fails2)
	isNew(t, r, err)
	// The same payload under another key is another message.
	r, err = s.Do(t.Context(), portableClaim("m2"), fails2)
	isNew(t, r, err)
	r, err = s.Do(t.Context(), portableClaim("m1"), mustNotRun(t))
	isDuplicate(t, r, err)
	if runs != 4 {
		t.Errorf("%d runs", runs)
	}
	// A class that the handler set stands.
	_, err = s.Do(t.Context(), portableClaim("m3"), func(context.Context, *sqlx.Tx) ([]store.Output, error) {
		return nil, store.WithClass(store.ClassPermanent, boom)
	})
	fails(t, err, boom, store.ClassPermanent)
}

func panicGoesOn(t testing.TB, s store.Store, _ time.Duration) {
	type value struct{ n int }
	for i := range 5 { // as many as would exhaust a pool
		func() {
			defer func() {
				if p := recover(); p != (value{i}) {
					t.Errorf("the panic that goes on is %v", p)
				}
			}()
			_, err := s.Do(t.Context(), portableClaim("m1"), func(context.Context, *sqlx.Tx) ([]store.Output, error) {
				panic(value{i})
			})
			t.Errorf("Do returned %v", err)
		}()
	}
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
}

func goexitLeavesNothing(t testing.TB, s store.Store, _ time.Duration) {
	for range 5 {
		returned := false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.Do(t.Context(), portableClaim("m1"), func(context.Context, *sqlx.Tx) ([]store.Output, error) {
				goexit()
				return nil, nil
			})
			returned = true
		}()
		<-ended
		if returned {
			t.Error("Do returned from a Goexit")
		}
	}
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
}

type contextKey struct{}

func contextOfHandler(t testing.TB, s store.Store, _ time.Duration) {
	ctx := context.WithValue(t.Context(), contextKey{}, "value")
	r, err := s.Do(ctx, portableClaim("m1"), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
		if ctx.Value(contextKey{}) != "value" {
			t.Error("the caller's values are not in the handler's context")
		}
		return nil, nil
	})
	isNew(t, r, err)
}

func nestedRefused(t testing.TB, s store.Store, _ time.Duration) {
	r, err := s.Do(t.Context(), portableClaim("m1"), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
		for _, key := range []string{"m1", "m2"} {
			_, err := s.Do(ctx, portableClaim(key), mustNotRun(t))
			fails(t, err, store.ErrNested, store.ClassPermanent)
		}
		return nil, nil
	})
	isNew(t, r, err)
}

func fingerprints(t testing.TB, s store.Store, _ time.Duration) {
	claim := func(fingerprint string) store.Claim {
		c := portableClaim("m1")
		if fingerprint != "" {
			c.Fingerprint = []byte(fingerprint)
		}
		return c
	}
	runs := 0
	r, err := s.Do(t.Context(), claim("one"), nothing(&runs))
	isNew(t, r, err)
	for _, same := range []string{"one", ""} { // without a fingerprint nothing is compared
		r, err = s.Do(t.Context(), claim(same), mustNotRun(t))
		isDuplicate(t, r, err)
	}
	r, err = s.Do(t.Context(), claim("two"), mustNotRun(t))
	fails(t, err, store.ErrKeyReused, store.ClassPermanent)
	var reused *store.KeyReusedError
	if !errors.As(err, &reused) || reused.Key != "m1" || reused.Consumer != consumer || reused.ClaimedAt.IsZero() {
		t.Errorf("the error says %+v", reused)
	}
	if !r.Duplicate || r.ClaimedAt.IsZero() {
		t.Errorf("the result beside the error is %+v, want that of a duplicate", r)
	}
	// A claim without a fingerprint takes any.
	c := portableClaim("m2")
	r, err = s.Do(t.Context(), c, nothing(&runs))
	isNew(t, r, err)
	c.Fingerprint = []byte("three")
	r, err = s.Do(t.Context(), c, mustNotRun(t))
	isDuplicate(t, r, err)
}

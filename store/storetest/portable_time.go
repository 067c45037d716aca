package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

func goexit() { runtime.Goexit() }

func twoProducers(t testing.TB, s store.Store, _ time.Duration) {
	// Both number their messages from 1; of those with one number the second
	// producer's payload is another, but for the first five.
	const common, equal = 35, 5
	payload := func(producer, n int) []byte {
		if n < equal {
			producer = 0
		}
		return fmt.Appendf(nil, "payload %d of %d", n, producer)
	}
	reused, duplicates := 0, 0
	for producer := range 2 {
		for n := range common {
			_, err := s.Do(t.Context(), store.Claim{Consumer: consumer, Key: fmt.Sprint("id-", n), Fingerprint: payload(producer, n)},
				func(context.Context, *sqlx.Tx) ([]store.Output, error) { return nil, nil })
			switch {
			case producer == 0 && err != nil:
				t.Errorf("message %d: %v", n, err)
			case producer == 1 && err == nil:
				duplicates++ // nobody can tell them from redeliveries
			case producer == 1:
				fails(t, err, store.ErrKeyReused, store.ClassPermanent)
				if e, ok := errors.AsType[*store.KeyReusedError](err); !ok || e.Key != fmt.Sprint("id-", n) || e.Consumer != consumer {
					t.Errorf("the error does not tell of which key: %v", err)
				}
				reused++
			}
		}
	}
	if reused != common-equal || duplicates != equal {
		t.Errorf("%d keys are called reused and %d duplicates, want %d and %d", reused, duplicates, common-equal, equal)
	}
}

func invalidRefused(t testing.TB, s store.Store, _ time.Duration) {
	long := strings.Repeat("é", 127) // 254 bytes
	for what, c := range map[string]store.Claim{
		"no key":                {Consumer: consumer},
		"no consumer":           {Key: "m1"},
		"long consumer":         {Consumer: long + "é", Key: "m1"},
		"consumer with NUL":     {Consumer: "a\x00b", Key: "m1"},
		"consumer not in UTF-8": {Consumer: "a\xffb", Key: "m1"},
		"consumer with newline": {Consumer: "a\nb", Key: "m1"},
		"negative wait":         {Consumer: consumer, Key: "m1", Wait: -time.Second},
		"negative bound":        {Consumer: consumer, Key: "m1", Bounds: store.Bounds{Acquire: -1}},
		"long fingerprint":      {Consumer: consumer, Key: "m1", Fingerprint: make([]byte, 65)},
	} {
		_, err := s.Do(t.Context(), c, mustNotRun(t))
		if !errors.Is(err, store.ErrInvalid) || store.ClassOf(err) != store.ClassPermanent {
			t.Errorf("%s: %v", what, err)
		}
	}
	runs := 0
	r, err := s.Do(t.Context(), store.Claim{Consumer: long + "e", Key: "m1", Fingerprint: make([]byte, 64)}, nothing(&runs))
	isNew(t, r, err)
}

// holding starts an attempt whose handler waits until finish gets its error.
func holding(t testing.TB, s store.Store, key string) (a *attempt, finish chan<- error) {
	t.Helper()
	inside, end := make(chan struct{}), make(chan error, 1)
	a = start(t, s, t.Context(), portableClaim(key), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
		close(inside)
		select {
		case err := <-end:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	select {
	case <-inside:
	case <-a.ended:
		t.Fatalf("the first copy did not run: %+v, %v", a.result, a.err)
	}
	return a, end
}

func inFlight(t testing.TB, s store.Store, wait time.Duration) {
	a, finish := holding(t, s, "m1")
	c := portableClaim("m1")
	c.Wait = wait
	crowd(5, func(int) {
		began := time.Now()
		_, err := s.Do(t.Context(), c, mustNotRun(t))
		took := time.Since(began)
		fails(t, err, store.ErrInFlight, store.ClassTransient)
		if took < wait/2 || took > wait+margin {
			t.Errorf("waited %v, told %v", took, wait)
		}
	})
	finish <- nil
	r, err := a.await(t)
	isNew(t, r, err)
	r, err = s.Do(t.Context(), c, mustNotRun(t))
	isDuplicate(t, r, err)
}

func waitsForCommit(t testing.TB, s store.Store, _ time.Duration) {
	a, finish := holding(t, s, "m1")
	waiting := start(t, s, t.Context(), portableClaim("m1"), mustNotRun(t))
	finish <- nil
	r, err := a.await(t)
	isNew(t, r, err)
	r, err = waiting.await(t)
	isDuplicate(t, r, err)
}

func waitsForRollback(t testing.TB, s store.Store, _ time.Duration) {
	a, finish := holding(t, s, "m1")
	runs := 0
	waiting := start(t, s, t.Context(), portableClaim("m1"), nothing(&runs))
	boom := errors.New("boom")
	finish <- boom
	_, err := a.await(t)
	fails(t, err, boom, store.ClassHandler)
	r, err := waiting.await(t)
	isNew(t, r, err)
}

func racers(t testing.TB, s store.Store, _ time.Duration) {
	for round := range 3 {
		var winners, duplicates atomic.Int32
		crowd(16, func(int) {
			r, err := s.Do(t.Context(), portableClaim(fmt.Sprint("m", round)), func(context.Context, *sqlx.Tx) ([]store.Output, error) {
				winners.Add(1)
				return nil, nil
			})
			switch {
			case err != nil:
				t.Errorf("a racer ended with %v", err)
			case r.Duplicate:
				duplicates.Add(1)
			}
		})
		if winners.Load() != 1 || duplicates.Load() != 15 {
			t.Errorf("round %d: %d winners and %d duplicates", round, winners.Load(), duplicates.Load())
		}
	}
}

func cancelled(t testing.TB, s store.Store, _ time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Do(ctx, portableClaim("m1"), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
		cancel()
		<-ctx.Done()
		return nil, nil // too late
	})
	fails(t, err, context.Canceled, store.ClassTransient)
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
}

func cancelledBefore(t testing.TB, s store.Store, _ time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Do(ctx, portableClaim("m1"), mustNotRun(t))
	fails(t, err, context.Canceled, store.ClassTransient)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = s.Do(ctx, portableClaim("m1"), mustNotRun(t))
	fails(t, err, context.DeadlineExceeded, store.ClassTransient)
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
}

func deadline(t testing.TB, s store.Store, _ time.Duration) {
	for _, returns := range []error{nil, errors.New("boom"), context.DeadlineExceeded} {
		late := newExpiring(t.Context())
		_, err := s.Do(late, portableClaim("m1"), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
			late.expire()
			<-ctx.Done()
			return nil, returns
		})
		fails(t, err, context.DeadlineExceeded, store.ClassHandler)
	}
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
}

func purgeAll(t testing.TB, s store.Store, _ time.Duration) {
	runs := 0
	for i := range 3 {
		r, err := s.Do(t.Context(), portableClaim(fmt.Sprint("m", i)), nothing(&runs))
		isNew(t, r, err)
	}
	if n, err := s.Purge(t.Context(), store.Purge{Retention: time.Hour}); n != 0 || err != nil {
		t.Errorf("a purge of what is older than an hour deleted %d: %v", n, err)
	}
	if n, err := s.Purge(t.Context(), store.Purge{Retention: time.Nanosecond, Batch: 2, Confirm: true}); n != 3 || err != nil {
		t.Errorf("a purge of everything deleted %d of 3: %v", n, err)
	}
	r, err := s.Do(t.Context(), portableClaim("m0"), nothing(&runs))
	isNew(t, r, err)
}

func purgeInvalid(t testing.TB, s store.Store, _ time.Duration) {
	for _, p := range []store.Purge{{}, {Retention: -time.Hour}, {Retention: time.Hour, Batch: -1}} {
		if n, err := s.Purge(t.Context(), p); n != 0 || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %d, %v", p, n, err)
		}
	}
}

package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// outcomes are the store's rows of the table of outcomes: what is in the
// database afterwards. What a caller sees is in the portable scenarios, what a
// handler does to its transaction in guarded_*.go.
func outcomes() []scenario {
	return []scenario{
		{name: "claim and writes commit together", run: commitsTogether},
		{name: "B12 failed attempts leave nothing, the one that succeeds one effect", run: failsTwice},
		{name: "a panic leaves nothing and gives the connection back", run: panics},
		{name: "a Goexit leaves nothing and gives the connection back", run: goexits},
		{name: "an attempt that is cancelled leaves nothing", run: cancelledHandler},
		{name: "a deadline in the handler leaves nothing", run: deadlineInHandler},
		{name: "B10 the handler's own unique violation is no duplicate", run: uniqueViolation},
		{name: "B10 another unique index on the claims is no duplicate", run: otherIndex},
		{name: "an attempt on the same pool inside an attempt is refused, on another it is not", run: nestedStores},
	}
}

func commitsTogether(t testing.TB, h Harness) {
	p := open(t, h, 2)
	r, err := p.s.Do(t.Context(), p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if err := addEffect(ctx, tx, "m1"); err != nil {
			return nil, err
		}
		p.holds(0, 0) // nobody else sees anything yet
		return nil, nil
	})
	isNew(t, r, err)
	p.holds(1, 1)
	r, err = p.s.Do(t.Context(), p.claim("m1"), p.never)
	isDuplicate(t, r, err)
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

func failsTwice(t testing.TB, h Harness) {
	p := open(t, h, 2)
	boom, runs := errors.New("boom"), 0
	for range 3 {
		r, err := p.s.Do(t.Context(), p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			runs++
			if err := addEffect(ctx, tx, "m1"); err != nil || runs == 3 {
				return nil, err
			}
			return nil, boom
		})
		if runs < 3 {
			fails(t, err, boom, store.ClassHandler)
			p.holds(0, 0)
		} else {
			isNew(t, r, err)
		}
	}
	p.holds(1, 1)
	if runs != 3 {
		t.Errorf("%d runs", runs)
	}
	PoolIdle(t, p.s.DB().DB)
}

func panics(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for i := range 5 {
		func() {
			defer func() {
				if got := recover(); got != i {
					t.Errorf("the panic that goes on is %v", got)
				}
			}()
			_, _ = p.s.Do(t.Context(), p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
				if err := addEffect(ctx, tx, "m1"); err != nil {
					t.Error(err)
				}
				panic(i)
			})
		}()
	}
	p.holds(0, 0)
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

func goexits(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for range 5 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = p.s.Do(t.Context(), p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
				if err := addEffect(ctx, tx, "m1"); err != nil {
					t.Error(err)
				}
				goexit()
				return nil, nil
			})
		}()
		<-ended
	}
	p.holds(0, 0)
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

func cancelledHandler(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for _, says := range []error{nil, errors.New("boom")} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.s.Do(ctx, p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			if err := addEffect(ctx, tx, "m1"); err != nil {
				t.Error(err)
			}
			cancel()
			return nil, says
		})
		fails(t, err, context.Canceled, store.ClassTransient)
		p.holds(0, 0)
	}
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

func deadlineInHandler(t testing.TB, h Harness) {
	p := open(t, h, 1)
	late := newExpiring(t.Context())
	_, err := p.s.Do(late, p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if err := addEffect(ctx, tx, "m1"); err != nil {
			t.Error(err)
		}
		late.expire()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	fails(t, err, context.DeadlineExceeded, store.ClassHandler)
	p.holds(0, 0)
	// A context of the handler's own that ends is the handler's error too.
	_, err = p.s.Do(t.Context(), p.claim("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if err := addEffect(ctx, tx, "m1"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithDeadline(ctx, time.Now())
		defer cancel()
		<-ctx.Done()
		return nil, addEffect(ctx, tx, "late")
	})
	fails(t, err, context.DeadlineExceeded, store.ClassHandler)
	p.holds(0, 0)
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

func uniqueViolation(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.exec("CREATE UNIQUE INDEX effects_name ON effects (name)")
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
	for range 2 {
		var raw error
		r, err = p.s.Do(t.Context(), p.claim("m2"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			raw = addEffect(ctx, tx, "m1")
			return nil, raw
		})
		if raw == nil {
			t.Fatal("the unique index let a second row pass")
		}
		fails(t, err, raw, store.ClassHandler)
		if r.Duplicate {
			t.Error("it was taken for a duplicate message")
		}
		p.holds(1, 1)
	}
	r, err = p.do(p.claim("m2"))
	isNew(t, r, err)
	p.holds(2, 2)
}

func otherIndex(t testing.TB, h Harness) {
	p := open(t, h, 2)
	p.exec("CREATE UNIQUE INDEX somebody_elses ON once_claims (fingerprint)")
	c := p.claim("m1")
	c.Fingerprint = []byte("same")
	r, err := p.do(c)
	isNew(t, r, err)
	c.Key = "m2"
	r, err = p.s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	if r.Duplicate {
		t.Error("it was taken for a duplicate message")
	}
	p.holds(1, 1)
}

func nestedStores(t testing.TB, h Harness) {
	p := open(t, h, 2)
	same := h.Again(t, p.s, 2)
	r, err := p.s.Do(t.Context(), p.claim("m1"), func(ctx context.Context, _ *sqlx.Tx) ([]store.Output, error) {
		_, err := p.s.Do(ctx, p.claim("m2"), p.never)
		fails(t, err, store.ErrNested, store.ClassPermanent)
		if h.OneWriter {
			return nil, nil
		}
		// Another pool is another store: nothing here can wait for itself.
		r, err := same.Do(ctx, p.claim("m3"), effect("m3"))
		isNew(t, r, err)
		_, err = p.s.Do(ctx, p.claim("m4"), p.never)
		fails(t, err, store.ErrNested, store.ClassPermanent)
		return nil, nil
	})
	isNew(t, r, err)
}

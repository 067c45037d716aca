package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// cancelScenarios: contexts that end where it hurts.
func cancelScenarios() []scenario {
	return []scenario{
		{name: "the attempt is cancelled in each round trip, and in the commit", on: both(wired, unless(both(isDirect, onLibpq))), run: cancelEverywhere},
		{name: "the attempt is cancelled behind each statement", on: both(stubbed, unless(isDirect)), run: cancelBehind},
		{name: "B28 the attempt is cancelled while its handler writes on", on: unless(both(isDirect, onSQLite)), run: cancelInLoop},
		{name: "C04 a cancel that meets the end of the handler's statement", on: unless(isDirect), run: lateSubContext},
		{name: "C04 a cancel that meets the commit", run: lateCancel},
	}
}

// rounds is n, or what ONCE_TEST_ROUNDS says: how often a race is run.
func rounds(t testing.TB, n int) int {
	t.Helper()
	text := os.Getenv("ONCE_TEST_ROUNDS")
	if text == "" {
		return n
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ONCE_TEST_ROUNDS: %v", err)
	}
	return n
}

// cancelEverywhere keeps each round trip back until the attempt is cancelled.
func cancelEverywhere(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	trips := p.trips(w)
	for n := 1; n <= trips; n++ {
		key := fmt.Sprintf("cancel %d", n)
		p.warm(w)
		ctx, cancel := context.WithCancel(t.Context())
		commit := false
		trip := w.On(NthRoundTrip(n), Fault{Hold: true, Call: func(s Statement) { commit = endsHere(s.Text) }})
		ran := 0
		a := start(t, p.s, ctx, p.patient(key), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			ran++
			return nil, addEffect(ctx, tx, key)
		})
		trip.Await(t)
		cancel()
		if !commit {
			select {
			case <-a.ended: // most drivers do not wait for the server
			case <-time.After(200 * time.Millisecond):
			}
		}
		w.Disarm()
		r, err := a.await(t)
		switch {
		case commit && (err != nil || r.Duplicate):
			t.Errorf("%s: the commit ended with the attempt's context: %+v, %v", key, r, err)
		case !commit:
			fails(t, err, context.Canceled, store.ClassTransient)
		}
		if ran > 1 {
			t.Errorf("%s: the handler ran %d times", key, ran)
		}
		p.redelivered(key, key, r, err)
	}
	PoolIdle(t, p.s.DB().DB)
}

func endsHere(text string) bool { return strings.EqualFold(strings.TrimRight(text, "; "), "commit") }

// cancelBehind cancels the attempt when the answer to each statement is there
// and its driver has not returned yet.
func cancelBehind(t testing.TB, h Harness) {
	p := open(t, h, 2)
	for n := 0; ; n++ {
		key := fmt.Sprintf("cancel %d", n)
		stub := &Stub{}
		s := h.Stub(t, p.s, 1, stub)
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Do(t.Context(), p.patient(key), func(context.Context, *sqlx.Tx) ([]store.Output, error) {
			return nil, errors.New("warm")
		}); err == nil {
			t.Fatal("the handler's error is lost")
		}
		ctx, cancel := context.WithCancel(t.Context())
		lie := stub.Tell(Lie{After: n, Times: 1, Answer: func(err error) error { cancel(); return err }})
		r, err := s.Do(ctx, p.patient(key), effect(key))
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", key, err)
		}
		p.redelivered(key, key, r, err)
		PoolIdle(t, s.DB().DB)
		if stub.Told(lie) == 0 {
			if n < 3 {
				t.Errorf("an attempt of %d statements", n)
			}
			return
		}
	}
}

// cancelInLoop is golang/go issue 34775: statements that follow the end of the
// transaction commit one by one.
func cancelInLoop(t testing.TB, h Harness) {
	p := open(t, h, 2)
	for i := range rounds(t, 10) {
		ctx, cancel := context.WithCancel(t.Context())
		after := 1 + rand.N(20) //nolint:gosec // a number
		_, err := p.s.Do(ctx, p.patient(fmt.Sprint(i)), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			for n := range 40 {
				if n == after {
					go cancel()
				}
				if addEffect(ctx, tx, "leaked") != nil && n < after {
					t.Error("a statement failed too early")
				}
				if ctx.Err() == nil {
					continue
				}
				// One that knows no better goes on without the context.
				_ = addEffect(context.WithoutCancel(ctx), tx, "leaked")
			}
			<-ctx.Done()
			return nil, nil
		})
		cancel()
		fails(t, err, context.Canceled, store.ClassTransient)
	}
	p.holds(0, 0)
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

// lateSubContext lets the end of a statement's own context race with the end of
// the statement, under a handler that does not look at the error. Nothing that
// is left of it may meet the commit, or the next attempt on the connection.
func lateSubContext(t testing.TB, h Harness) {
	p := open(t, h, 1)
	took := time.Millisecond
	committed, failed, unsent := 0, 0, 0
	for i := range rounds(t, 60) {
		key := fmt.Sprint(i)
		var said error
		r, err := p.run(p.patient(key), func(ctx context.Context, tx *sqlx.Tx) error {
			short, cancel := context.WithTimeout(ctx, rand.N(2*took+time.Microsecond)) //nolint:gosec // a number
			defer cancel()
			began := time.Now()
			if said = addEffect(short, tx, key); said == nil {
				took = time.Since(began)
			}
			return nil
		})
		effects := p.number("SELECT COUNT(*) FROM effects WHERE name = ?", key)
		switch {
		case err == nil && said == nil && effects == 1:
			committed++
		case err == nil && r.Unused && errors.Is(said, context.DeadlineExceeded) && effects == 0:
			// The context was over before the statement was sent: database/sql
			// told the handler, and nobody else.
			unsent++
		case err != nil && effects == 0 && store.ClassOf(err) != store.ClassPermanent:
			failed++
			r, err = p.do(p.patient(key)) // the next one on the connection is unharmed
			isNew(t, r, err)
		default:
			t.Errorf("%s: %d effects, the statement said %v, the attempt %+v, %v", key, effects, said, r, err)
		}
	}
	t.Logf("%d committed, %d failed, %d were not sent", committed, failed, unsent)
	PoolIdle(t, p.s.DB().DB)
}

// lateCancel lets a cancel race with the commit and with the next claim on the
// connection. Whatever wins, the answer is the truth.
func lateCancel(t testing.TB, h Harness) {
	p := open(t, h, 1)
	committed := 0
	for i := range rounds(t, 60) {
		ctx, cancel := context.WithCancel(t.Context())
		c := p.patient(fmt.Sprint(i))
		_, err := p.s.Do(ctx, c, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			if err := addEffect(ctx, tx, c.Key); err != nil {
				return nil, err
			}
			go cancel()
			return nil, nil
		})
		cancel()
		if err == nil {
			committed++
		} else if store.ClassOf(err) != store.ClassTransient {
			t.Errorf("round %d: %v", i, err)
		}
	}
	p.holds(committed, committed)
	PoolIdle(t, p.s.DB().DB)
}

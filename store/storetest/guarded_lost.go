package storetest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// lostScenarios: what happens to the connection under an attempt.
func lostScenarios() []scenario {
	return []scenario{
		{name: "B34 the connection is cut at each statement, before and after its bytes", on: wired, run: cutEverywhere},
		{name: "B39 the session is ended at each statement", on: both(wired, killable), run: killEverywhere},
		{name: "B39 the session is ended while the handler does other things", on: killable, run: killedIdle},
		{name: "C09 a connection that only reads is discarded", on: both(refusesWrites, unless(onLibpq)), run: onlyReads},
		{name: "C10 a server that says nothing, at the claim", on: both(wired, manyWriters, unless(isDirect)), run: silentClaim},
		{name: "C10 a server that says nothing, at the commit", on: wired, run: silentCommit, guarded: everywhere},
		{name: "a plain attempt sends BEGIN, the claim, the handler's statement, COMMIT and nothing else", on: both(wired, unless(isDirect)), run: onTheWire},
	}
}

// onLibpq: it begins READ WRITE, whatever the session's default is.
func onLibpq(h Harness) bool { return h.Driver == "postgres" }

// refusesWrites: behind a pooler the session is not the connection's.
func refusesWrites(h Harness) bool { return h.ReadOnly != nil }

func isDirect(h Harness) bool { return h.Direct }

func killable(h Harness) bool { return h.Kill != "" }

// wiredPlace is a place behind a wire, whose connections and statement caches
// are warm.
func wiredPlace(t testing.TB, h Harness, pool int) (*place, *Wire) {
	t.Helper()
	s, w := h.Wire(t, pool)
	p := settle(t, h, s)
	for _, key := range []string{"warm", "warm", "warmer", "warmer"} {
		if _, err := p.do(p.patient(key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"warm", "warmer"} {
		if _, err := p.s.Forget(t.Context(), consumer, key); err != nil {
			t.Fatal(err)
		}
	}
	p.exec("DELETE FROM effects")
	w.Reset()
	return p, w
}

// trips is how many round trips a first attempt takes with one statement.
func (p *place) trips(w *Wire) int {
	p.Helper()
	w.Reset()
	if _, err := p.do(p.patient("count")); err != nil {
		p.Fatal(err)
	}
	n := w.RoundTrips()
	w.Reset()
	return n
}

// redelivered checks that an attempt which ended with err, and one more, make
// one effect: whatever the first one left.
func (p *place) redelivered(what, key string, r store.Result, err error) {
	p.Helper()
	if err == nil && r.Duplicate {
		p.Errorf("%s: the first attempt was a duplicate", what)
	}
	// Without the guarded connection a dead connection looks like any error of
	// the handler's.
	if err != nil && !p.h.Direct && store.ClassOf(err) != store.ClassTransient {
		p.Errorf("%s: the error is %v's: %v", what, store.ClassOf(err), err)
	}
	if _, err := p.do(p.patient(key)); err != nil {
		p.Errorf("%s: the redelivery: %v", what, err)
	}
	if n := p.number("SELECT COUNT(*) FROM effects WHERE name = ?", key); n != 1 {
		p.Errorf("%s: %d effects, want 1 (the first attempt said %v)", what, n, err)
	}
}

func cutEverywhere(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	trips := p.trips(w)
	for n := 1; n <= trips; n++ {
		for after, cut := range map[bool]func(Match) *Trip{false: w.CutBefore, true: w.CutAfter} {
			key := fmt.Sprintf("cut %d after %v", n, after)
			p.warm(w)
			cut(NthRoundTrip(n))
			r, err := p.do(p.patient(key))
			w.Disarm()
			p.redelivered(key, key, r, err)
		}
	}
}

// warm gets a connection that was used before, so that round trips are counted
// from the attempt's first.
func (p *place) warm(w *Wire) {
	p.Helper()
	for range 2 {
		if _, err := p.do(p.patient("count")); err != nil {
			p.Fatal(err)
		}
	}
	w.Reset()
}

func killEverywhere(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	trips := p.trips(w)
	for n := 1; n <= trips; n++ {
		key := fmt.Sprintf("kill %d", n)
		p.warm(w)
		w.On(NthRoundTrip(n), Fault{Call: func(s Statement) {
			_, _ = p.view().ExecContext(context.Background(), fmt.Sprintf(h.Kill, s.Backend))
		}})
		r, err := p.do(p.patient(key))
		w.Disarm()
		p.redelivered(key, key, r, err)
	}
}

func killedIdle(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for _, writes := range []bool{true, false} {
		_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := addEffect(ctx, tx, "lost"); err != nil {
				return err
			}
			var id int64
			if err := tx.GetContext(ctx, &id, h.ConnectionID); err != nil {
				return err
			}
			if _, err := p.view().ExecContext(ctx, fmt.Sprintf(h.Kill, id)); err != nil {
				return err
			}
			if writes {
				_ = addEffect(ctx, tx, "leaked")
			}
			return nil
		})
		if err == nil || store.ClassOf(err) != store.ClassTransient {
			t.Errorf("writes %v: want a transient error, got %v", writes, err)
		}
		p.holds(0, 0)
	}
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
}

// onlyReads makes the pool's one connection refuse writes, as after a
// fail-over: the session is healthy, so no pool would discard it.
func onlyReads(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.exec(map[string]string{
		"postgres": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
		"mysql":    "SET SESSION TRANSACTION READ ONLY",
		"sqlite":   "PRAGMA query_only = ON",
	}[h.Dialect])
	_, err := p.do(p.patient("key"))
	fails(t, err, store.ErrReadOnly, store.ClassTransient)
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	p.holds(1, 1)
}

func silentClaim(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	w.BlackHole(Running("once_claims"))
	began := time.Now()
	_, err := p.do(p.claim("key"))
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	// The claim's wait, what we wait longer for its answer, and what a driver
	// needs to notice.
	if took := time.Since(began); took > h.wait()+10*time.Second {
		t.Errorf("it took %s", took)
	}
	w.Disarm()
	w.CutAll()
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
}

func silentCommit(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	w.BlackHole(func(s Statement) bool { return s.Runs() && strings.EqualFold(s.Text, "commit") })
	c := p.patient("key")
	c.Bounds.Commit = 300 * time.Millisecond
	ended := make(chan error, 1)
	go func() {
		_, err := p.do(c)
		ended <- err
	}()
	select {
	case err := <-ended:
		fails(t, err, store.ErrCommitUnknown, store.ClassTransient)
	case <-time.After(8 * time.Second):
		t.Error("the commit's bound does not hold against a server that says nothing")
		w.CutAll()
		<-ended
	}
	w.Disarm()
	w.CutAll()
	Eventually(t, 0, "the redelivery is processed", func() error {
		_, err := p.do(p.patient("key"))
		return err
	})
	p.holds(1, 1)
}

func onTheWire(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	if r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		// Without arguments, for which some drivers prepare.
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES ('key')")
		return err
	}); err != nil || r.Duplicate {
		t.Fatalf("%+v, %v", r, err)
	}
	wantOnly(t, w.Ran(), map[string]int{"begin": 1, "claim": 1, "handler": 1, "commit": 1})
	if ran := w.Ran(); h.Trips.First == 2 && ran[0].RoundTrip != ran[len(ran)-3].RoundTrip {
		t.Errorf("BEGIN and the claim do not travel together: %q", Texts(ran))
	}
	if trips := w.RoundTrips(); h.Trips.First > 0 && trips != h.Trips.First+1 {
		t.Errorf("a first attempt took %d round trips with the handler's own, want %d: %q", trips, h.Trips.First+1, Texts(w.Statements()))
	}
	w.Reset()
	if r, err := p.do(p.patient("key")); err != nil || !r.Duplicate {
		t.Fatalf("%+v, %v", r, err)
	}
	if trips := w.RoundTrips(); h.Trips.Duplicate > 0 && trips != h.Trips.Duplicate {
		t.Errorf("a duplicate took %d round trips, want %d: %q", trips, h.Trips.Duplicate, Texts(w.Statements()))
	}
}

// wantOnly sorts what was sent, and fails unless it is what is wanted. A
// compound statement is both BEGIN and the claim.
func wantOnly(t testing.TB, ran []Statement, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for _, s := range ran {
		text := strings.ToLower(s.Text)
		begins := strings.HasPrefix(text, "begin") || strings.HasPrefix(text, "start transaction") || strings.HasPrefix(text, "set transaction isolation level")
		if begins {
			got["begin"] = 1 // some need two statements for it
		}
		switch {
		case strings.Contains(text, "insert into") && strings.Contains(text, "once_claims"):
			got["claim"]++
		case strings.Contains(text, "insert into effects"):
			got["handler"]++
		case strings.TrimRight(text, ";") == "commit":
			got["commit"]++
		case !begins:
			got[text]++
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("sent %v, want %v: %q", got, want, Texts(ran))
	}
}

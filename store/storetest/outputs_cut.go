package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// lostOutputs: what happens when something is lost under an attempt with outputs.
func lostOutputs() []scenario {
	return []scenario{
		{name: "B34 the connection is cut at each statement of an attempt with outputs", on: wired, run: cutOutputs},
		{name: "B39 the session is ended at each statement of an attempt with outputs", on: both(wired, killable), run: killOutputs},
		{name: "C10 a server that says nothing, at the outputs", on: both(wired, unless(isDirect)), run: silentOutputs},
		{name: "outputs that cannot be stored are a definite refusal", run: refusedOutputs},
	}
}

// neverLost checks an attempt with outputs that ended with err, and one more:
// however the first one ended, outputs and effect are there once.
func (p *place) neverLost(what, key string, r store.Result, err error) {
	p.Helper()
	if err == nil && r.Duplicate {
		p.Errorf("%s: the first attempt was a duplicate", what)
	}
	if err != nil && len(r.Unsent) > 0 {
		p.Errorf("%s: outputs to send beside %v", what, err)
	}
	if err != nil && !p.h.Direct && store.ClassOf(err) != store.ClassTransient {
		p.Errorf("%s: the error is %v's: %v", what, store.ClassOf(err), err)
	}
	again, err := p.s.Do(p.Context(), p.asking(key), produces(key, made(3)...))
	if err != nil {
		p.Errorf("%s: the redelivery: %v", what, err)
	}
	alike(p, again.Unsent, made(3))
	if n := p.number("SELECT COUNT(*) FROM effects WHERE name = ?", key); n != 1 {
		p.Errorf("%s: %d effects, want 1", what, n)
	}
	if err := p.s.MarkSent(p.Context(), idsOf(again.Unsent)...); err != nil {
		p.Errorf("%s: %v", what, err)
	}
	p.outputs(0)
}

// outputTrips is how many round trips a first attempt with outputs takes.
func (p *place) outputTrips(w *Wire) int {
	p.Helper()
	var ids []store.OutputID
	for _, key := range []string{"warm 1", "warm 2", "count"} {
		w.Reset()
		ids = append(ids, idsOf(p.produce(key, made(3)...))...)
	}
	n := w.RoundTrips()
	if err := p.s.MarkSent(p.Context(), ids...); err != nil {
		p.Fatal(err)
	}
	return n
}

func cutOutputs(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	trips := p.outputTrips(w)
	for n := 1; n <= trips; n++ {
		for after, cut := range map[bool]func(Match) *Trip{false: w.CutBefore, true: w.CutAfter} {
			key := fmt.Sprintf("cut %d after %v", n, after)
			p.warm(w)
			cut(NthRoundTrip(n))
			r, err := p.s.Do(t.Context(), p.patient(key), produces(key, made(3)...))
			w.Disarm()
			p.neverLost(key, key, r, err)
		}
	}
	PoolIdle(t, p.s.DB().DB)
}

func killOutputs(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	trips := p.outputTrips(w)
	for n := 1; n <= trips; n++ {
		key := fmt.Sprintf("kill %d", n)
		p.warm(w)
		w.On(NthRoundTrip(n), Fault{Call: func(s Statement) {
			_, _ = p.view().Exec(fmt.Sprintf(h.Kill, s.Backend))
		}})
		r, err := p.s.Do(t.Context(), p.patient(key), produces(key, made(3)...))
		w.Disarm()
		p.neverLost(key, key, r, err)
	}
	PoolIdle(t, p.s.DB().DB)
}

// silentOutputs: whether the INSERT travels alone or with COMMIT, the commit's
// bound holds.
func silentOutputs(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	p.outputTrips(w)
	w.BlackHole(Running("insert into " + outputsTable(h)))
	c := p.patient("key")
	c.Bounds.Commit, c.Bounds.Rollback = 300*time.Millisecond, 300*time.Millisecond
	began := time.Now()
	r, err := p.s.Do(t.Context(), c, produces("key", made(3)...))
	if took := time.Since(began); took > 2*margin {
		t.Errorf("it took %s", took)
	}
	if !errors.Is(err, store.ErrCommitUnknown) && !errors.Is(err, store.ErrCommitRefused) {
		t.Errorf("%+v, %v", r, err)
	}
	w.Disarm()
	w.CutAll()
	p.neverLost("silent", "key", r, err)
	PoolIdle(t, p.s.DB().DB)
}

// outputsTable is the table's name as statements have it.
func outputsTable(h Harness) string {
	if h.Dialect == "mysql" {
		return "`once_outputs`"
	}
	return `"once_outputs"`
}

// refusedOutputs: the INSERT fails, so nothing was committed and nobody may say
// that it is unknown.
func refusedOutputs(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.produce("m0", made(1)...)
	p.exec("ALTER TABLE once_outputs RENAME TO elsewhere")
	for range 2 {
		_, err := p.s.Do(t.Context(), p.patient("m1"), produces("m1", made(2)...))
		fails(t, err, store.ErrCommitRefused, store.ClassTransient)
		fails(t, err, store.ErrSchema, store.ClassTransient)
	}
	p.holds(1, 1)
	r, err := p.do(p.patient("m2")) // no outputs, no table needed
	isNew(t, r, err)
	p.exec("ALTER TABLE elsewhere RENAME TO once_outputs")
	// One that is there already: another process made the same id.
	p.exec("UPDATE once_outputs SET id = 1, ordinal = 0, consumer = ?, "+column(h)+" = ?", consumer, store.EncodeKey("m3"))
	_, err = p.s.Do(t.Context(), p.patient("m3"), produces("m3", made(1)...))
	fails(t, err, store.ErrCommitRefused, store.ClassTransient)
	p.holds(2, 2)
	p.produce("m1", made(2)...)
	PoolIdle(t, p.s.DB().DB)
}

// column is the name of the claim's key.
func column(h Harness) string {
	if h.Dialect == "mysql" {
		return "`key`"
	}
	return `"key"`
}

package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/watermill-once/watermill-once/store"
)

// failedOutputs: outputs that could not be sent.
func failedOutputs() []scenario {
	return []scenario{
		{name: "an output that was not sent is handed out again when its time has come", run: postpones},
		{name: "attempts are counted where they count", run: countsAttempts},
		{name: "B61 an output that was given up on is kept, revived or dropped", run: diesAndRises},
		{name: "C14 a reason of any bytes and length is kept as text", run: reasons},
	}
}

// postpone must succeed.
func (p *place) postpone(failures ...store.Failure) {
	p.Helper()
	if err := p.s.Postpone(p.Context(), failures...); err != nil {
		p.Fatal(err)
	}
}

func postpones(t testing.TB, h Harness) {
	p := open(t, h, 4)
	ids := idsOf(p.produce("m1", made(3)...))
	p.hand(p.s, store.Lease{For: time.Hour}, ids...)
	p.postpone(store.Failure{ID: ids[0]}, store.Failure{ID: ids[1], After: time.Minute}, store.Failure{ID: 1})
	p.hand(p.s, store.Lease{For: 2 * time.Hour}, ids[0])
	p.hand(p.again(1, ago(-50*time.Second)), store.Lease{})
	p.hand(p.again(1, ago(-70*time.Second)), store.Lease{}, ids[1])
	p.postpone()
}

func countsAttempts(t testing.TB, h Harness) {
	p := open(t, h, 4)
	ids := idsOf(p.produce("m1", made(2)...))
	for _, f := range []store.Failure{{ID: ids[0], Counted: true}, {ID: ids[0]}, {ID: ids[0], Counted: true, Reason: "no broker"}, {ID: ids[1]}} {
		p.postpone(f)
	}
	got, err := p.s.LeaseUnsent(t.Context(), store.Lease{For: time.Minute})
	if err != nil || len(got) != 2 || got[0].Attempts != 2 || got[1].Attempts != 0 {
		t.Errorf("%+v: %v", got, err)
	}
	r, err := p.s.Do(t.Context(), p.asking("m1"), p.never)
	if err != nil || len(r.Unsent) != 2 || r.Unsent[0].Attempts != 2 {
		t.Errorf("a duplicate has %+v: %v", r.Unsent, err)
	}
}

func diesAndRises(t testing.TB, h Harness) {
	p := open(t, h, 4)
	all := made(4)
	ids := idsOf(p.produce("m1", all...))
	p.postpone(store.Failure{ID: ids[2], Counted: true, Reason: "first"})
	p.postpone(store.Failure{ID: ids[2], Counted: true, Dead: true, Reason: "no such topic"})
	p.postpone(store.Failure{ID: ids[2], Dead: true}) // again, and the reason stays
	p.postpone(store.Failure{ID: ids[1], Dead: true})
	p.postpone(store.Failure{ID: ids[3], Dead: true})
	p.hand(p.s, store.Lease{}, ids[0])
	if b, err := p.s.Backlog(t.Context()); err != nil || b.Unsent != 1 || b.Dead != 3 || b.Oldest < 0 || b.Oldest > time.Hour {
		t.Errorf("the backlog is %+v: %v", b, err)
	}
	dead, err := p.s.DeadOutputs(t.Context(), 2)
	if err != nil || len(dead) != 2 {
		t.Fatalf("%+v: %v", dead, err)
	}
	alike(t, []store.Output{dead[0].Output, dead[1].Output}, []store.Output{all[2], all[1]})
	if d := dead[0]; d.Reason != "no such topic" || d.Attempts != 2 || time.Since(d.DiedAt).Abs() > time.Hour || dead[1].Reason != "" {
		t.Errorf("%+v", dead)
	}
	changes := func(what string, want int64, n int64, err error) {
		t.Helper()
		if n != want || err != nil {
			t.Errorf("%s changed %d, want %d: %v", what, n, want, err)
		}
	}
	n, err := p.s.DropOutputs(t.Context())
	changes("drop without ids", 0, n, err)
	n, err = p.s.DropOutputs(t.Context(), ids[0], ids[1]) // the first is not dead
	changes("drop", 1, n, err)
	n, err = p.s.ReviveOutputs(t.Context(), ids[0], ids[2])
	changes("revive", 1, n, err)
	n, err = p.s.ReviveOutputs(t.Context())
	changes("revive all", 1, n, err)
	got, err := p.s.LeaseUnsent(t.Context(), store.Lease{For: time.Minute})
	if err != nil || !slices.Equal(idsOf(got), ids[2:]) || got[0].Attempts != 0 {
		t.Errorf("alive again are %+v: %v", got, err)
	}
	p.outputs(3)
}

func reasons(t testing.TB, h Harness) {
	p := open(t, h, 2)
	given := []string{
		"plain", "'quotes\" and \\ \n", "nul \x00 here", "bytes \xff\xfe", strings.Repeat("ж", 2000), "x" + strings.Repeat("ж", 2000),
		strings.Repeat("\xff", 3000), strings.Repeat("\x00", 5000), strings.Repeat("a", 1024), strings.Repeat("🙂", 256) + "z",
	}
	ids := idsOf(p.produce("m1", made(len(given))...))
	for i, reason := range given {
		p.postpone(store.Failure{ID: ids[i], Dead: true, Reason: reason})
	}
	dead, err := p.s.DeadOutputs(t.Context(), 100)
	if err != nil || len(dead) != len(given) {
		t.Fatalf("%d are dead: %v", len(dead), err)
	}
	for i, d := range dead {
		if !utf8.ValidString(d.Reason) || strings.Contains(d.Reason, "\x00") || len(d.Reason) > 1024 {
			t.Errorf("the reason %.40q is kept as %d bytes: %.40q", given[i], len(d.Reason), d.Reason)
		}
		if len(given[i]) <= 1024 && utf8.ValidString(given[i]) && !strings.Contains(given[i], "\x00") && d.Reason != given[i] {
			t.Errorf("the reason %.40q is kept as %.40q", given[i], d.Reason)
		}
		if strings.HasSuffix(given[i], "жж") && len(d.Reason) < 1020 {
			t.Errorf("the reason %.40q is cut to %d bytes", given[i], len(d.Reason))
		}
	}
}

package storetest

import (
	"fmt"
	"strings"
	"testing"
)

// wireOutputs: what outputs send.
func wireOutputs() []scenario {
	return []scenario{
		{name: "outputs travel in one INSERT, whatever their number", on: both(wired, unless(isDirect)), run: oneInsert},
	}
}

// oneInsert counts what is sent beside that of an attempt without outputs.
func oneInsert(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	for n := range 4 { // one output and several may be different statements
		p.produce(fmt.Sprint("warm ", n), made(1+n%2)...)
	}
	trips := p.trips(w)
	inserts := func() (n int) {
		for _, s := range w.Ran() {
			if strings.Contains(strings.ToLower(s.Text), "insert into") && strings.Contains(s.Text, "once_outputs") {
				n++
			}
		}
		return n
	}
	for _, n := range []int{1, 10, 1000} {
		w.Reset()
		p.produce(fmt.Sprint(n), made(n)...)
		if got := inserts(); got != 1 {
			t.Errorf("%d outputs took %d INSERTs", n, got)
		}
		t.Logf("%d outputs: %d round trips, without any %d", n, w.RoundTrips(), trips)
		// On pgx and MariaDB the INSERT travels with COMMIT.
		if joined := h.Trips.First == 2; joined && w.RoundTrips() != trips {
			t.Errorf("%d outputs took %d round trips, without any it is %d: %q", n, w.RoundTrips(), trips, clipped(w.Ran()))
		}
	}
	w.Reset()
	if r, err := p.s.Do(t.Context(), p.patient("10"), p.never); err != nil || !r.Duplicate || r.Unsent != nil {
		t.Errorf("a duplicate that does not ask: %+v, %v", r, err)
	}
	plain := w.RoundTrips()
	if h.Trips.Duplicate > 0 && plain != h.Trips.Duplicate {
		t.Errorf("a duplicate that does not ask for outputs took %d round trips, want %d", plain, h.Trips.Duplicate)
	}
	for range 2 { // the first one may prepare
		w.Reset()
		if r, err := p.s.Do(t.Context(), p.asking("10"), p.never); err != nil || len(r.Unsent) != 10 {
			t.Errorf("a duplicate that asks has %d outputs, %v", len(r.Unsent), err)
		}
	}
	t.Logf("a duplicate: %d round trips, with the outputs that are left %d", plain, w.RoundTrips())
	// On pgx both questions travel together.
	if h.Dialect == "postgres" && h.Trips.First == 2 && w.RoundTrips() != plain {
		t.Errorf("a duplicate that asks for outputs took %d round trips, want %d", w.RoundTrips(), plain)
	}
}

// clipped are texts short enough to print.
func clipped(statements []Statement) []string {
	texts := Texts(statements)
	for i, s := range texts {
		texts[i] = s[:min(len(s), 100)]
	}
	return texts
}

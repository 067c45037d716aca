package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/watermill-once/watermill-once/store"
)

// migrations are the scenarios of how the tables come to be. Those beside
// claims, and after a kill, are in traps_migrate.go.
func migrations() []scenario {
	return []scenario{
		{name: "B72 eight processes migrate an empty database at once", on: both(processes, described), run: eightProcesses},
		{name: "B72 eight replicas of one process migrate at once", on: described, run: eightReplicas},
		{name: "C17 a lock that does not exclude does no harm", on: both(stubbed, described, onMySQL), run: lockDoesNothing},
		{name: "C18 a migration that is cut off before and after each statement", on: both(wired, described), run: cutMigration},
		{name: "C18 a migration that meets a deadlock at each statement", on: both(stubbed, func(h Harness) bool { return len(h.Refusals) > 0 }), run: deadlockedMigration},
		{name: "stores of two prefixes do not meet", run: twoPrefixes},
		{name: "a prefix or schema that is no plain identifier is refused", run: badNames},
		{name: "the script makes the same tables, and its grants are enough", on: func(h Harness) bool { return h.Role != nil }, run: scriptAndGrants},
		{name: "a role without rights gets an error that names the table", on: func(h Harness) bool { return h.Role != nil }, run: withoutRights},
		{name: "a database that only reads is told from one that fails", on: both(refusesWrites, unless(onLibpq)), run: readsOnly},
		{name: "claims before the tables exist are refused with what to do", run: tablesMissing},
	}
}

// empty is a place that nobody migrated.
func empty(t testing.TB, h Harness) *place {
	t.Helper()
	return &place{TB: t, h: h, s: h.Open(t, 4)}
}

func eightProcesses(t testing.TB, h Harness) {
	const rounds = 5
	children := make([]*child, 8)
	for i := range children {
		children[i] = spawn(t)
	}
	for _, c := range children { // they are all up
		if err := c.tell("hello", ""); err != nil {
			t.Fatal(err)
		}
		if answer := c.answer(); answer != "done" {
			t.Fatal(answer)
		}
	}
	want := open(t, h, 2).schema()
	for round := range rounds {
		p := empty(t, h)
		for _, c := range children {
			if err := c.tell("migrate", h.DSN(p.s)); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range children {
			if answer := c.answer(); answer != "done" {
				t.Errorf("round %d, process %d: %s", round, i, answer)
			}
		}
		if got := p.schema(); got != want {
			t.Errorf("round %d: the schema is\n%s\nwant\n%s", round, got, want)
		}
		if _, err := p.s.Verify(t.Context()); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
}

// allMigrate lets eight migrate an empty database through stores of their own,
// and compares.
func allMigrate(t testing.TB, h Harness, want string, one func(p *place) *store.SQL) {
	t.Helper()
	p := empty(t, h)
	replicas := make([]*store.SQL, 8)
	for i := range replicas {
		replicas[i] = one(p)
	}
	crowd(len(replicas), func(i int) {
		if err := replicas[i].Migrate(t.Context()); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	})
	if got := p.schema(); got != want {
		t.Errorf("the schema is\n%s\nwant\n%s", got, want)
	}
}

func eightReplicas(t testing.TB, h Harness) {
	want := open(t, h, 2).schema()
	for range 2 {
		allMigrate(t, h, want, func(p *place) *store.SQL { return p.again(1) })
	}
}

func lockDoesNothing(t testing.TB, h Harness) {
	want := open(t, h, 2).schema()
	for range 3 {
		allMigrate(t, h, want, func(p *place) *store.SQL {
			stub := &Stub{}
			stub.Tell(Lie{About: "GET_LOCK", Instead: "DO 1"})
			return h.Stub(p, p.s, 1, stub)
		})
	}
}

// each runs f for 0 to n-1, some at a time: what they do is mostly waiting.
func each(n int, f func(i int)) {
	var next atomic.Int64
	crowd(min(n, 6), func(int) {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			f(int(i - 1))
		}
	})
}

func cutMigration(t testing.TB, h Harness) {
	reference, wire := h.Wire(t, 1)
	if err := reference.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := (&place{TB: t, h: h, s: reference}).schema()
	each(2*wire.RoundTrips(), func(i int) {
		trip, after := i/2+1, i%2 == 1
		s, wire := h.Wire(t, 1)
		cut := wire.On(NthRoundTrip(trip), Fault{End: Cut, After: after})
		killed := s.Migrate(t.Context())
		if cut.Hits() != 1 {
			t.Errorf("nothing was cut at round trip %d", trip)
		}
		// The replicas that start after it.
		p := &place{TB: t, h: h, s: s}
		crowd(2, func(int) {
			if err := s.Migrate(t.Context()); err != nil {
				t.Errorf("after a cut at round trip %d (after %v: %v): %v", trip, after, killed, err)
			}
		})
		if got := p.schema(); got != want {
			t.Errorf("after a cut at round trip %d (after %v) the schema is\n%s\nwant\n%s", trip, after, got, want)
		}
	})
}

func deadlockedMigration(t testing.TB, h Harness) {
	deadlock := map[string]string{"postgres": "40P01", "mysql": "1213"}[h.Dialect]
	count := &Stub{}
	seen := count.Tell(Lie{About: "once_"})
	if err := h.Stub(t, empty(t, h).s, 1, count).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first statement asks for the version, before there is anything to try
	// again.
	each(count.Told(seen)-1, func(n int) {
		p := empty(t, h)
		stub := &Stub{}
		lie := stub.Tell(Lie{About: "once_", After: n + 1, Times: 1, Answer: Failing(h.Fault(deadlock))})
		if err := h.Stub(t, p.s, 1, stub).Migrate(t.Context()); err != nil || stub.Told(lie) != 1 {
			t.Errorf("a deadlock after %d statements: %v", n+1, err)
		}
	})
}

func twoPrefixes(t testing.TB, h Harness) {
	p := open(t, h, 2)
	other := p.again(2, store.WithPrefix("billing_2_"))
	_, err := other.Verify(t.Context())
	fails(t, err, store.ErrSchema, store.ClassTransient)
	if err := other.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, s := range []*store.SQL{p.s, other} {
		r, err := s.Do(t.Context(), p.claim("m1"), effect("m1"))
		isNew(t, r, err)
	}
	r, err := other.Do(t.Context(), p.claim("m1"), p.never)
	isDuplicate(t, r, err)
	p.holds(1, 2)
	if n := p.number("SELECT COUNT(*) FROM billing_2_claims"); n != 1 {
		t.Errorf("%d claims under the other prefix", n)
	}
	if n, err := other.Purge(t.Context(), store.Purge{Retention: 1, Confirm: true}); n != 1 || err != nil {
		t.Errorf("purge: %d, %v", n, err)
	}
	p.holds(1, 2)
	// The one schema that every place has is where its tables are.
	if schema := p.schemaName(); schema != "" {
		named := p.again(2, store.WithSchema(schema))
		r, err := named.Do(t.Context(), p.claim("m1"), p.never)
		isDuplicate(t, r, err)
		if _, err := named.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		elsewhere := p.again(2, store.WithSchema("no_such_schema"))
		_, err = elsewhere.Do(t.Context(), p.claim("m1"), p.never)
		fails(t, err, store.ErrSchema, store.ClassTransient)
	}
}

// schemaName is the schema that the place's tables are in, if it has a name
// that [store.WithSchema] takes.
func (p *place) schemaName() (name string) {
	p.Helper()
	query := map[string]string{"postgres": "SELECT current_schema()", "mysql": "SELECT DATABASE()"}[p.h.Dialect]
	if query == "" {
		return ""
	}
	if err := p.view().GetContext(p.Context(), &name, query); err != nil {
		p.Fatal(err)
	}
	if len(name) > 32 {
		return ""
	}
	return name
}

func badNames(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for _, name := range []string{"My_", "a-b", "1a", "a b", `a"; DROP TABLE effects; --`, "a`b", "é", strings.Repeat("a", 33), "a.b"} {
		for what, s := range map[string]*store.SQL{
			"prefix": p.again(1, store.WithPrefix(name)),
			"schema": p.again(1, store.WithSchema(name)),
		} {
			_, err := s.Do(t.Context(), p.claim("m1"), p.never)
			for method, err := range map[string]error{
				"Validate": s.Validate(p.claim("m1")), "Migrate": s.Migrate(t.Context()), "Do": err, "Ping": s.Ping(t.Context()),
			} {
				if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
					t.Errorf("%s of the %s %q: %v", method, what, name, err)
				}
			}
		}
	}
	p.holds(0, 0)
}

func tablesMissing(t testing.TB, h Harness) {
	p := empty(t, h)
	_, err := p.s.Do(t.Context(), p.claim("m1"), p.never)
	fails(t, err, store.ErrSchema, store.ClassTransient)
	if err != nil && (!strings.Contains(err.Error(), "once_claims") || !strings.Contains(err.Error(), "Migrate")) {
		t.Errorf("%q does not name the table and the fix", err)
	}
	if err := p.s.Ping(t.Context()); err == nil {
		t.Error("Ping: no error")
	}
	if _, err := p.s.Purge(t.Context(), store.Purge{Retention: 1}); err == nil {
		t.Error("Purge: no error")
	}
	if err := p.s.Migrate(t.Context()); err != nil { // on the same pool
		t.Fatal(err)
	}
	p.exec("CREATE TABLE effects (name VARCHAR(200), n BIGINT)")
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
}

package storetest

import (
	"slices"
	"testing"
)

// scenario is one test of the suite.
type scenario struct {
	// name begins with the numbers of the traps that it covers, if any.
	name string
	// on chooses the harnesses that can run it; nil: every one.
	on func(Harness) bool
	// guarded chooses the harnesses on which it needs the guarded connection,
	// so that with store.Direct it must fail; nil: it needs it nowhere.
	guarded func(Harness) bool
	run     func(t testing.TB, h Harness)
}

// group is the scenarios of one topic.
type group struct {
	name      string
	scenarios []scenario
}

// suite is all that a store over SQL is held to. Each topic's file has a
// function that returns its group.
func suite() []group {
	groups := []group{
		{"portable", portableScenarios()},
		{"outcomes", outcomes()},
		{"racers", racing()},
		{"keys", keys()},
		{"waits", waits()},
		{"commits", commitScenarios()},
		{"outputs", outputScenarios()},
		{"purge", purging()},
		{"migrate", migrations()},
		{"outages", outages()},
	}
	return append(groups, guardedGroups()...)
}

// databaseOnly are the groups about what is the same however one reaches the
// database.
var databaseOnly = map[string]bool{
	"migrate": true, "migrate safety": true, "purge": true, "purge safety": true, "codes": true,
}

// Run holds a dialect to the contract of package store: every scenario that
// the harness can run, in parallel, each on a database of its own. Names of
// groups choose those groups only.
//
// With h.Direct, a scenario that needs the guarded connection is run where its
// failure fails nothing, and what it failed with is logged: that is what Direct
// loses. Such a scenario that passes fails the run, for then it shows nothing.
func Run(t *testing.T, h Harness, groups ...string) {
	t.Helper()
	all := suite()
	for _, name := range groups {
		if !slices.ContainsFunc(all, func(g group) bool { return g.name == name }) {
			t.Fatalf("storetest: there is no group %q", name)
		}
	}
	for _, g := range all {
		if len(groups) > 0 && !slices.Contains(groups, g.name) || h.Variant && databaseOnly[g.name] {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range g.scenarios {
				if s.on == nil || s.on(h) {
					t.Run(s.name, func(t *testing.T) {
						t.Parallel()
						s.test(t, h)
					})
				}
			}
		})
	}
}

// test runs the scenario on a harness.
func (s scenario) test(t *testing.T, h Harness) {
	t.Helper()
	if h.Direct && s.guarded != nil && s.guarded(h) {
		loses(t, h, s)
		return
	}
	s.run(t, h)
}

// loses runs a scenario that must fail, and says with what it did.
func loses(t *testing.T, h Harness, s scenario) {
	t.Helper()
	said := try(t, func(t testing.TB) { s.run(t, h) })
	if said == "" {
		t.Errorf("direct: %q passes without the guarded connection, so it does not show what that is worth", s.name)
		return
	}
	t.Logf("direct: loses %q: %s", s.name, said)
}

// The usual answers to "on" and "guarded".

func everywhere(Harness) bool   { return true }
func onPostgres(h Harness) bool { return h.Dialect == "postgres" }
func onMySQL(h Harness) bool    { return h.Dialect == "mysql" }
func onSQLite(h Harness) bool   { return h.Dialect == "sqlite" }
func wired(h Harness) bool      { return h.Wire != nil }
func stubbed(h Harness) bool    { return h.Stub != nil }
func processes(h Harness) bool  { return h.DSN != nil }
func manyWriters(h Harness) bool {
	return !h.OneWriter
}

// both is true where each of the conditions is.
func both(conditions ...func(Harness) bool) func(Harness) bool {
	return func(h Harness) bool {
		for _, c := range conditions {
			if !c(h) {
				return false
			}
		}
		return true
	}
}

package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// migrateSafetyScenarios: migrations beside claims, and ones that were killed.
func migrateSafetyScenarios() []scenario {
	return []scenario{
		{name: "C07 a migration gives way and says to whom", on: manyWriters, run: givesWay},
		{name: "C17 a lock that is forbidden or does nothing", on: both(described, stubbed, manyWriters), run: lockForbidden},
		{name: "C18 a migration that was killed after each statement", on: both(described, stubbed), run: killedMigration},
		{name: "tables of another version are refused with what to do", run: otherVersion},
	}
}

func described(h Harness) bool { return h.Describe != "" }

// schema describes all tables, to compare.
func (p *place) schema() string {
	p.Helper()
	var lines []string
	// A catalogue that other tests change meanwhile may fail to be read.
	Eventually(p, 0, "the schema can be read", func() error {
		lines = nil
		return p.view().SelectContext(p.Context(), &lines, p.h.Describe)
	})
	return strings.Join(lines, "\n")
}

// notes is a log that a test can read.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *notes) has(part string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.text.String(), part)
}

func givesWay(t testing.TB, h Harness) {
	p := open(t, h, 4)
	// The last step is undone, and somebody reads what it replaces.
	p.exec("DELETE FROM once_migrations WHERE version = (SELECT v FROM (SELECT MAX(version) AS v FROM once_migrations) m)")
	reader, err := p.view().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback() //nolint:errcheck // it changes nothing
	var n int
	if err := reader.Get(&n, "SELECT COUNT(*) FROM once_claims_text"); err != nil {
		t.Fatal(err)
	}
	log := &notes{}
	migrator := p.again(2, store.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	done := make(chan error, 1)
	go func() { done <- migrator.Migrate(context.WithoutCancel(t.Context())) }()
	Eventually(t, 0, "the migration gives way", func() error {
		if !log.has("gives way") {
			return errors.New("not yet")
		}
		return nil
	})
	r, err := p.do(p.patient("meanwhile")) // claims go on in between
	isNew(t, r, err)
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Migrate: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the migration does not come to an end")
	}
	if log.has("blockers=unknown") {
		t.Error("it does not say who was in its way")
	}
}

func lockForbidden(t testing.TB, h Harness) {
	p := open(t, h, 2)
	want := p.schema()
	empty := h.Open(t, 2)
	if h.Dialect == "postgres" {
		// Functions that come before the server's own, and raise.
		for _, f := range []string{"pg_advisory_xact_lock(bigint)", "pg_advisory_lock(bigint)", "pg_try_advisory_xact_lock(bigint)"} {
			if _, err := empty.DB().ExecContext(t.Context(), "CREATE FUNCTION "+f+" RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'forbidden'; END $$"); err != nil {
				t.Fatal(err)
			}
		}
	}
	errs := make([]error, 4)
	crowd(len(errs), func(i int) {
		stub := &Stub{}
		stub.Tell(Lie{About: "GET_LOCK", Answer: Failing(errors.New("forbidden"))})
		errs[i] = h.Stub(t, empty, 2, stub).Migrate(t.Context())
	})
	for _, err := range errs {
		if err != nil {
			t.Errorf("Migrate: %v", err)
		}
	}
	if got := (&place{TB: t, h: h, s: empty}).schema(); got != want {
		t.Errorf("the schema is\n%s\nwant\n%s", got, want)
	}
}

// killedMigration lets the connection die after the n-th statement, for every
// n, and migrates again.
func killedMigration(t testing.TB, h Harness) {
	want := open(t, h, 2).schema()
	count := &Stub{}
	seen := count.Tell(Lie{About: "once_"})
	if err := h.Stub(t, h.Open(t, 2), 2, count).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	each(count.Told(seen), func(n int) {
		s := h.Open(t, 2)
		stub := &Stub{}
		lie := stub.Tell(Lie{About: "once_", After: n, Times: 1, Answer: Failing(driver.ErrBadConn)})
		_ = h.Stub(t, s, 2, stub).Migrate(t.Context())
		if stub.Told(lie) != 1 {
			t.Errorf("no statement was met after %d", n)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("after %d statements: %v", n, err)
		}
		if got := (&place{TB: t, h: h, s: s}).schema(); got != want {
			t.Errorf("after %d statements the schema is\n%s\nwant\n%s", n, got, want)
		}
	})
}

func otherVersion(t testing.TB, h Harness) {
	empty := h.Open(t, 2)
	_, err := empty.Verify(t.Context())
	fails(t, err, store.ErrSchema, store.ClassTransient)
	p := open(t, h, 2)
	if _, err := p.s.Verify(t.Context()); err != nil {
		t.Errorf("tables of this version: %v", err)
	}
	p.exec("UPDATE once_migrations SET version = 99 WHERE version = 1")
	_, err = p.s.Verify(t.Context())
	fails(t, err, store.ErrSchema, store.ClassTransient)
	fails(t, p.s.Migrate(t.Context()), store.ErrSchema, store.ClassTransient)
	if err != nil && !strings.Contains(err.Error(), "99") {
		t.Errorf("%q does not name the version", err)
	}
	p.exec("DELETE FROM once_migrations")
	_, err = p.s.Verify(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("older tables: %v", err)
	}
}

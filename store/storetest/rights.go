package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// scriptAndGrants runs the printed script, as a team with its own tool would,
// and then everything that a service does as the role of the grants.
func scriptAndGrants(t testing.TB, h Harness) {
	p := empty(t, h)
	role := h.Role(t, p.s)
	script, err := p.s.Script(role.Name)
	if err != nil {
		t.Fatal(err)
	}
	role.Script(t, script)
	if h.Describe != "" {
		if got, want := p.schema(), open(t, h, 2).schema(); got != want {
			t.Errorf("the schema is\n%s\nwant\n%s", got, want)
		}
	}
	if err := p.s.Migrate(t.Context()); err != nil {
		t.Errorf("Migrate finds something to do, or fails: %v", err)
	}

	s := role.Open(t, 2)
	if err := s.Migrate(t.Context()); err != nil {
		t.Errorf("as the role: Migrate with nothing to do: %v", err)
	}
	if _, err := s.Verify(t.Context()); err != nil {
		t.Errorf("as the role: Verify: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("as the role: Ping: %v", err)
	}
	c := p.claim("m1")
	c.Fingerprint = []byte("one")
	handler := func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		_, err := tx.ExecContext(ctx, "SELECT 1")
		return nil, err
	}
	r, err := s.Do(t.Context(), c, handler)
	isNew(t, r, err)
	r, err = s.Do(t.Context(), c, p.never)
	isDuplicate(t, r, err)
	c.Fingerprint = []byte("two")
	_, err = s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrKeyReused, store.ClassPermanent)
	if _, found, err := s.Lookup(t.Context(), consumer, "m1"); !found || err != nil {
		t.Errorf("as the role: Lookup: %v, %v", found, err)
	}
	if forgot, err := s.Forget(t.Context(), consumer, "m1"); !forgot || err != nil {
		t.Errorf("as the role: Forget: %v, %v", forgot, err)
	}
	r, err = s.Do(t.Context(), c, handler)
	isNew(t, r, err)
	if n, err := s.Purge(t.Context(), store.Purge{Retention: 1, Confirm: true}); n != 1 || err != nil {
		t.Errorf("as the role: Purge: %d, %v", n, err)
	}
	outboxAsRole(t, p, s)
	var n int
	if err := s.DB().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM once_claims_text"); err != nil {
		t.Errorf("as the role: the view: %v", err)
	}
	for _, more := range []string{"DROP TABLE once_claims", "DELETE FROM once_migrations", "UPDATE once_claims SET consumer = 'x'", "DELETE FROM once_state"} {
		if _, err := s.DB().ExecContext(t.Context(), more); err == nil {
			t.Errorf("the grants allow %s", more)
		}
	}
}

// outboxAsRole does with outputs what a service and its operator do.
func outboxAsRole(t testing.TB, p *place, s *store.SQL) {
	t.Helper()
	r, err := s.Do(t.Context(), p.asking("outputs"), returning(made(3)...))
	isNew(t, r, err)
	ids := idsOf(r.Unsent)
	p.hand(s, store.Lease{}, ids...)
	_, backlog := s.Backlog(t.Context())
	_, dead := s.DeadOutputs(t.Context(), 1)
	_, drop := s.DropOutputs(t.Context(), ids[1])
	_, revive := s.ReviveOutputs(t.Context())
	for what, err := range map[string]error{
		"MarkSent": s.MarkSent(t.Context(), ids[0]), "Postpone": s.Postpone(t.Context(), store.Failure{ID: ids[1], Dead: true, Reason: "x"}),
		"Backlog": backlog, "DeadOutputs": dead, "DropOutputs": drop, "ReviveOutputs": revive,
	} {
		if err != nil {
			t.Errorf("as the role: %s: %v", what, err)
		}
	}
	if forgot, err := s.Forget(t.Context(), consumer, "outputs"); !forgot || err != nil {
		t.Errorf("as the role: Forget: %v, %v", forgot, err)
	}
}

func withoutRights(t testing.TB, h Harness) {
	p := open(t, h, 2)
	role := h.Role(t, p.s)
	if h.Dialect == "mysql" {
		// Without any right in it one cannot even enter a database.
		role.Script(t, "GRANT SELECT ON effects TO "+role.Name)
	}
	s := role.Open(t, 2)
	_, err := s.Do(t.Context(), p.claim("m1"), p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	names := func(what string, err error) {
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		if !strings.Contains(err.Error(), "once_") || !strings.Contains(err.Error(), "Script") {
			t.Errorf("%s: %q does not name the table and the grants that the script prints", what, err)
		}
		if errors.Is(err, store.ErrSchema) {
			t.Errorf("%s: the tables are called missing: %v", what, err)
		}
	}
	names("Do", err)
	_, err = s.Verify(t.Context())
	names("Verify", err)
	names("Migrate", s.Migrate(t.Context()))
	names("Ping", s.Ping(t.Context()))
	_, _, err = s.Lookup(t.Context(), consumer, "m1")
	names("Lookup", err)
	_, err = s.Purge(t.Context(), store.Purge{Retention: 1})
	names("Purge", err)
	p.holds(0, 0)
}

func readsOnly(t testing.TB, h Harness) {
	p := open(t, h, 2)
	r, err := p.do(p.claim("before"))
	isNew(t, r, err)
	s := h.ReadOnly(t, p.s, 2)
	for range 3 {
		_, err = s.Do(t.Context(), p.claim("m1"), p.never)
		fails(t, err, store.ErrReadOnly, store.ClassTransient)
	}
	if n := s.DB().Stats().OpenConnections; n > 1 { // the one that asked for the settings
		t.Errorf("%d connections that only read are kept", n)
	}
	if _, err := s.Purge(t.Context(), store.Purge{Retention: 1, Confirm: true}); err == nil {
		t.Error("Purge: no error")
	}
	p.holds(1, 1)
}

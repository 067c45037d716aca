package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// codeScenarios: errors that no server here says, told by a stub.
func codeScenarios() []scenario {
	return []scenario{
		{name: "C29 a code that is in no table, at the handler's statement", on: codes, run: unknownCodes},
		{name: "C29 a code that is in no table, at the commit", on: codes, run: unknownCommit},
		{name: "C11 a proxy that refuses the claim", on: both(stubbed, onMySQL), run: proxyRefuses},
	}
}

func codes(h Harness) bool { return h.Stub != nil && h.Fault != nil }

// strange are codes of proxies and of limits that end a transaction.
func strange(h Harness) []string {
	switch h.Dialect {
	case "postgres":
		return []string{"57P05", "25P04", "XX000", "53400"}
	case "mysql":
		return []string{"1105", "1317", "1969", "3024"}
	default:
		return nil
	}
}

func unknownCodes(t testing.TB, h Harness) {
	for _, code := range strange(h) {
		p := open(t, h, 2)
		stub := &Stub{}
		s := h.Stub(t, p.s, 1, stub)
		stub.Tell(Lie{About: "INTO effects", Answer: Failing(h.Fault(code)), Times: 1})
		_, err := s.Do(t.Context(), p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			// Without arguments, so that no driver prepares it past the stub.
			_, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES ('key')")
			return nil, err
		})
		if err == nil || store.ClassOf(err) != store.ClassTransient {
			t.Errorf("%s: want a transient error, got %v", code, err)
		} else if !strings.Contains(err.Error(), " old") {
			t.Errorf("%s: %q does not tell the transaction's age", code, err)
		}
		p.holds(0, 0)
		r, err := s.Do(t.Context(), p.patient("key"), effect("key"))
		isNew(t, r, err)
	}
}

func unknownCommit(t testing.TB, h Harness) {
	for _, code := range strange(h) {
		p := open(t, h, 2)
		stub := &Stub{}
		s := h.Stub(t, p.s, 1, stub)
		stub.Tell(Lie{About: "COMMIT", Instead: "ROLLBACK", Answer: Failing(h.Fault(code)), Times: 1})
		_, err := s.Do(t.Context(), p.patient("key"), effect("key"))
		if err == nil || store.ClassOf(err) != store.ClassTransient {
			t.Errorf("%s: want a transient error, got %v", code, err)
		}
		p.holds(0, 0)
		r, err := s.Do(t.Context(), p.patient("key"), effect("key"))
		isNew(t, r, err)
	}
}

func proxyRefuses(t testing.TB, h Harness) {
	p := open(t, h, 2)
	stub := &Stub{}
	s := h.Stub(t, p.s, 1, stub)
	stub.Tell(Lie{About: "once_claims", Answer: Failing(h.Fault("9006")), Times: 1})
	_, err := s.Do(t.Context(), p.patient("key"), effect("key"))
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	if err != nil && !strings.Contains(err.Error(), "mysql.Plain") {
		t.Errorf("%q does not name the setting", err)
	}
	r, err := s.Do(t.Context(), p.patient("key"), effect("key"))
	isNew(t, r, err)
}

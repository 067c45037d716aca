package billing

import (
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// openStore gives the test a database file of its own with one account, and
// the claims in it.
func openStore(t *testing.T) *store.SQL {
	t.Helper()
	claims, err := sqlite.Open(filepath.Join(t.TempDir(), "billing.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := claims.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := claims.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims.DB().MustExec(`CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)`)
	claims.DB().MustExec(`INSERT INTO accounts VALUES ('alice', 1000)`)
	return claims
}

// wantBalance looks through anything that can query: the pool, or a
// transaction that is still open.
func wantBalance(t *testing.T, q sqlx.Queryer, want int64) {
	t.Helper()
	var got int64
	if err := sqlx.Get(q, &got, `SELECT balance FROM accounts WHERE id = 'alice'`); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("balance = %d, want %d", got, want)
	}
}

package once_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite"

	once "github.com/watermill-once/watermill-once/middleware"
)

// openDB opens a fresh SQLite file with a table for effects.
func openDB(t testing.TB) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(`CREATE TABLE effects (id TEXT NOT NULL, note TEXT NOT NULL DEFAULT '')`); err != nil {
		t.Fatal(err)
	}
	return db
}

func newSQLiteFake(t testing.TB) *fakeStore {
	t.Helper()
	s := newFake()
	s.db = openDB(t)
	return s
}

// effect writes a row through the attempt's transaction.
func effect(ctx context.Context, id string) error {
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO effects (id) VALUES (?)`, id)
	return err
}

func effectOf(msg *message.Message) error { return effect(msg.Context(), msg.UUID) }

func (s *fakeStore) wantEffects(t testing.TB, want int) {
	t.Helper()
	var n int
	if err := s.db.Get(&n, `SELECT count(*) FROM effects`); err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("%d effects, want %d", n, want)
	}
}

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
func openDB(tb testing.TB) *sqlx.DB {
	tb.Helper()
	db, err := sqlx.Open("sqlite", "file:"+filepath.Join(tb.TempDir(), "test.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(`CREATE TABLE effects (id TEXT NOT NULL, note TEXT NOT NULL DEFAULT '')`); err != nil {
		tb.Fatal(err)
	}
	return db
}

func newSQLiteFake(tb testing.TB) *fakeStore {
	tb.Helper()
	s := newFake()
	s.db = openDB(tb)
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

func (s *fakeStore) wantEffects(tb testing.TB, want int) {
	tb.Helper()
	var n int
	if err := s.db.Get(&n, `SELECT count(*) FROM effects`); err != nil {
		tb.Fatal(err)
	}
	if n != want {
		tb.Errorf("%d effects, want %d", n, want)
	}
}

package payments

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

func TestHandleMovesMoney(t *testing.T) {
	t.Parallel()
	db := openBank(t)
	if err := handle(t, db, Transfer{From: 1, To: 2, Cents: 250}); err != nil {
		t.Fatal(err)
	}
	books, err := ReadBooks(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[int]int64{1: 750, 2: 250}; !maps.Equal(books.Balances, want) {
		t.Errorf("balances = %v, want %v", books.Balances, want)
	}
	if want := map[string]int{"transfer-1": 1}; !maps.Equal(books.Applied, want) {
		t.Errorf("applied = %v, want %v", books.Applied, want)
	}
}

func TestHandleRefusesUnknownAccount(t *testing.T) {
	t.Parallel()
	db := openBank(t)
	for _, transfer := range []Transfer{{From: 9, To: 2, Cents: 1}, {From: 1, To: 9, Cents: 1}} {
		if err := handle(t, db, transfer); !errors.Is(err, ErrNoAccount) {
			t.Errorf("%+v: %v, want ErrNoAccount", transfer, err)
		}
	}
}

func openBank(t *testing.T) *sqlx.DB {
	t.Helper()
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := Install(t.Context(), store.DB(), map[int]int64{1: 1000, 2: 0}); err != nil {
		t.Fatal(err)
	}
	return store.DB()
}

// handle gives one transfer to the handler and commits what it did.
func handle(t *testing.T, db *sqlx.DB, transfer Transfer) error {
	t.Helper()
	payload, err := json.Marshal(transfer)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() // after a commit it does nothing
	msg := message.NewMessage("transfer-1", payload)
	msg.SetContext(once.WithTx(t.Context(), tx))
	if err := Handle(msg); err != nil {
		return err
	}
	return tx.Commit()
}

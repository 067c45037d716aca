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
	receipts, err := handle(t, db, Transfer{From: 1, To: 2, Cents: 250})
	if err != nil {
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
	checkReceipt(t, receipts, Receipt{Transfer: "transfer-1", Cents: 250})
}

func checkReceipt(t *testing.T, receipts []*message.Message, want Receipt) {
	t.Helper()
	if len(receipts) != 1 {
		t.Fatalf("%d receipts, want one", len(receipts))
	}
	var got Receipt
	if err := json.Unmarshal(receipts[0].Payload, &got); err != nil || got != want || receipts[0].UUID == "" {
		t.Errorf("receipt %q = %+v, %v; want %+v", receipts[0].UUID, got, err, want)
	}
}

func TestHandleRefusesUnknownAccount(t *testing.T) {
	t.Parallel()
	db := openBank(t)
	for _, transfer := range []Transfer{{From: 9, To: 2, Cents: 1}, {From: 1, To: 9, Cents: 1}} {
		if _, err := handle(t, db, transfer); !errors.Is(err, ErrNoAccount) {
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
func handle(t *testing.T, db *sqlx.DB, transfer Transfer) ([]*message.Message, error) {
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
	receipts, err := Handle(msg)
	if err != nil {
		return nil, err
	}
	return receipts, tx.Commit()
}

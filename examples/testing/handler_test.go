package billing

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// The handler alone: once.WithTx puts a transaction of the test into the
// message's context, where once.Tx finds it. No guard, no router, no broker.

func TestHandleCharges(t *testing.T) {
	t.Parallel()
	tx := begin(t)

	if err := Handle(messageIn(t, tx, `{"account": "alice", "cents": 300}`)); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, tx, 700)
}

func TestHandleRefuses(t *testing.T) {
	t.Parallel()
	tx := begin(t)

	if err := Handle(messageIn(t, tx, `{"account": "bob", "cents": 300}`)); !errors.Is(err, ErrNoAccount) {
		t.Errorf("unknown account: %v, want ErrNoAccount", err)
	}
	if err := Handle(messageIn(t, tx, `no JSON`)); !once.IsPermanent(err) {
		t.Errorf("broken payload: %v, want a permanent error", err)
	}
	wantBalance(t, tx, 1000)
}

func begin(t *testing.T) *sqlx.Tx {
	t.Helper()
	tx, err := openStore(t).DB().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing of the test stays, and the store can be closed.
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func messageIn(t *testing.T, tx *sqlx.Tx, payload string) *message.Message {
	t.Helper()
	msg := message.NewMessage(watermill.NewUUID(), []byte(payload))
	msg.SetContext(once.WithTx(t.Context(), tx))
	return msg
}

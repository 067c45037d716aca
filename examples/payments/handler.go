package payments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// ErrNoAccount says that a transfer names an account that is not there.
var ErrNoAccount = errors.New("no such account")

// Transfer is the payload of the messages that [Handle] takes. The message's
// UUID identifies it: the message may come often, the transfer is one.
type Transfer struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Cents int64 `json:"cents"`
}

// Receipt is the payload of the messages that [Handle] returns, one for each
// transfer.
type Receipt struct {
	// Transfer is the UUID of the message that asked for it.
	Transfer string `json:"transfer"`
	Cents    int64  `json:"cents"`
}

// Handle moves the money, notes that it did, in the transaction of the message,
// and returns the receipt. It takes no precaution against duplicates: that is the
// guard's work. Nor does it for the receipt, which has a new UUID each time that
// the handler runs.
func Handle(msg *message.Message) ([]*message.Message, error) {
	var t Transfer
	if err := json.Unmarshal(msg.Payload, &t); err != nil {
		return nil, once.Permanent(fmt.Errorf("read the transfer: %w", err))
	}
	ctx := msg.Context()
	tx, err := once.Tx(ctx)
	if err != nil {
		return nil, err
	}
	if err := add(ctx, tx, t.From, -t.Cents); err != nil {
		return nil, err
	}
	if err := add(ctx, tx, t.To, t.Cents); err != nil {
		return nil, err
	}
	if err := note(ctx, tx, msg.UUID, t); err != nil {
		return nil, err
	}
	receipt, err := json.Marshal(Receipt{Transfer: msg.UUID, Cents: t.Cents})
	if err != nil {
		return nil, fmt.Errorf("write the receipt: %w", err)
	}
	return []*message.Message{message.NewMessage(watermill.NewUUID(), receipt)}, nil
}

// add changes a balance. Rebind turns the question marks into what the database
// at hand wants.
func add(ctx context.Context, tx *sqlx.Tx, account int, cents int64) error {
	result, err := tx.ExecContext(ctx, tx.Rebind(`UPDATE accounts SET balance = balance + ? WHERE id = ?`), cents, account)
	if err != nil {
		return fmt.Errorf("change the balance of account %d: %w", account, err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, fmt.Errorf("change the balance of account %d: %w", account, ErrNoAccount))
	}
	return nil
}

func note(ctx context.Context, tx *sqlx.Tx, id string, t Transfer) error {
	_, err := tx.ExecContext(ctx, tx.Rebind(`INSERT INTO transfers (id, debited, credited, cents) VALUES (?, ?, ?, ?)`),
		id, t.From, t.To, t.Cents)
	if err != nil {
		return fmt.Errorf("note transfer %q: %w", id, err)
	}
	return nil
}

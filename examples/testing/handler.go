package billing

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
)

// ErrNoAccount says that a charge names an account that is not there.
var ErrNoAccount = errors.New("no such account")

// Charge is the payload of the messages that [Handle] takes.
type Charge struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// Handle takes the sum from the account.
func Handle(msg *message.Message) error {
	var c Charge
	if err := json.Unmarshal(msg.Payload, &c); err != nil {
		return once.Permanent(fmt.Errorf("read the charge: %w", err))
	}
	tx, err := once.Tx(msg.Context())
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(msg.Context(),
		tx.Rebind(`UPDATE accounts SET balance = balance - ? WHERE id = ?`), c.Cents, c.Account)
	if err != nil {
		return fmt.Errorf("charge account %q: %w", c.Account, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("charge account %q: %w", c.Account, ErrNoAccount))
	}
	return nil
}

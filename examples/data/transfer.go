package data

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	once "github.com/watermill-once/watermill-once/middleware"
)

// Transfer is the payload of the messages that every handler here takes. With a
// voucher the receiver gets [Bonus] on top; a voucher that was used before is
// worth nothing, and the transfer is made without.
type Transfer struct {
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Cents   int64  `json:"cents"`
	Voucher string `json:"voucher,omitempty"`
}

// Bonus is what a voucher is worth, in cents.
const Bonus = 5

// What a handler may refuse.
var (
	ErrNoAccount = errors.New("no such account")
	ErrOverdrawn = errors.New("the account would be overdrawn")
)

func read(msg *message.Message) (Transfer, error) {
	var t Transfer
	if err := json.Unmarshal(msg.Payload, &t); err != nil {
		return t, once.Permanent(fmt.Errorf("read the transfer: %w", err))
	}
	return t, nil
}

// one makes an error of an update that did not change exactly one row.
func one(account, rows int64, err error) error {
	if err == nil && rows != 1 {
		err = ErrNoAccount
	}
	if err != nil {
		return fmt.Errorf("change the balance of account %d: %w", account, err)
	}
	return nil
}

// covered is the last thing that a handler asks: all is written by then, and an
// error takes all of it back.
func covered(account, balance int64, err error) error {
	if err == nil && balance < 0 {
		err = ErrOverdrawn
	}
	if err != nil {
		return fmt.Errorf("account %d: %w", account, err)
	}
	return nil
}

// unlessUsed drops the one error after which a transfer goes on without its
// bonus. Any other is the handler's: a nested transaction is undone for a lost
// deadlock or an ended context too.
func unlessUsed(err error) error {
	if duplicateKey(err) {
		return nil
	}
	return err
}

func duplicateKey(err error) bool {
	var postgres interface{ SQLState() string } // pgx and lib/pq
	if errors.As(err, &postgres) {
		return postgres.SQLState() == "23505"
	}
	if maria, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return maria.Number == 1062
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

//go:embed schema.sql
var tables string

// Install creates the tables of schema.sql.
func Install(ctx context.Context, db *sqlx.DB) error {
	for statement := range strings.SplitSeq(tables, ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
	}
	return nil
}

package payments

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Books are what the database says about the payments.
type Books struct {
	// Balances by account, in cents.
	Balances map[int]int64
	// Applied says how often each transfer was made.
	Applied map[string]int
}

// ReadBooks reads all of them.
func ReadBooks(ctx context.Context, db *sqlx.DB) (Books, error) {
	var accounts []struct {
		ID      int
		Balance int64
	}
	if err := db.SelectContext(ctx, &accounts, `SELECT id, balance FROM accounts`); err != nil {
		return Books{}, fmt.Errorf("read the accounts: %w", err)
	}
	var transfers []struct {
		ID string
		N  int
	}
	if err := db.SelectContext(ctx, &transfers, `SELECT id, COUNT(*) AS n FROM transfers GROUP BY id`); err != nil {
		return Books{}, fmt.Errorf("read the transfers: %w", err)
	}
	books := Books{Balances: make(map[int]int64, len(accounts)), Applied: make(map[string]int, len(transfers))}
	for _, a := range accounts {
		books.Balances[a.ID] = a.Balance
	}
	for _, t := range transfers {
		books.Applied[t.ID] = t.N
	}
	return books, nil
}

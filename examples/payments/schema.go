package payments

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// tables are written so that PostgreSQL, MariaDB and SQLite all take them.
//
// transfers has no unique index on purpose. It would keep the handler from
// booking a transfer twice, and so hide what happens without a guard.
var tables = []string{
	`CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)`,
	`CREATE TABLE transfers (id VARCHAR(36) NOT NULL, debited INTEGER NOT NULL, credited INTEGER NOT NULL, cents BIGINT NOT NULL)`,
}

// Install creates the tables and opens accounts with their first balances.
func Install(ctx context.Context, db *sqlx.DB, balances map[int]int64) error {
	for _, statement := range tables {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create a table of payments: %w", err)
		}
	}
	for account, cents := range balances {
		_, err := db.ExecContext(ctx, db.Rebind(`INSERT INTO accounts (id, balance) VALUES (?, ?)`), account, cents)
		if err != nil {
			return fmt.Errorf("open account %d: %w", account, err)
		}
	}
	return nil
}

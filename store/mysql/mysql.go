package mysql

import (
	"fmt"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// New returns the store over an application's own pool, which it never closes.
func New(db *sqlx.DB, opts ...store.Option) *store.SQL {
	return store.NewSQL(db, dialect{}, opts...)
}

// Open returns the store over a pool of its own for a DSN of go-sql-driver,
// with at most [store.DefaultPool] connections. It does not connect yet. The
// error never shows the password. [store.SQL.Close] closes the pool, and so does
// the guard's Close.
func Open(dsn string, opts ...store.Option) (*store.SQL, error) {
	// The driver's errors about a DSN quote nothing of it.
	if _, err := driver.ParseDSN(dsn); err != nil {
		return nil, fmt.Errorf("%w: mysql DSN: %w", store.ErrInvalid, err)
	}
	db, err := sqlx.Open("mysql", dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: mysql DSN: %w", store.ErrInvalid, err)
	}
	db.SetMaxOpenConns(store.DefaultPool)
	db.SetMaxIdleConns(store.DefaultPool)
	return store.OpenSQL(db, dialect{}, opts...), nil
}

// The variants of the server.
const (
	variantMariaDB = "mariadb"
	variantMySQL   = "mysql"
)

// Plain sends MariaDB only what MySQL has too, for a proxy that parses
// statements and stumbles over others (ProxySQL pins a session for SET
// STATEMENT and refuses the next). It costs a round trip an attempt for BEGIN,
// one more when the pool's sessions do not begin with the store's isolation
// level, and the wait for a copy in flight is then bounded by the server's own
// innodb_lock_wait_timeout instead of Claim.Wait.
func Plain() store.Option { return store.WithVariant(variantMySQL) }

package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// New returns the store over an application's own pool, which it never closes.
func New(db *sqlx.DB, opts ...store.Option) *store.SQL {
	return store.NewSQL(db, dialect{}, opts...)
}

// Open returns the store over a pool of its own for a connection string, as
// pgx.ParseConfig reads it, with at most [store.DefaultPool] connections. It
// does not connect yet. The error never shows
// the password. [store.SQL.Close] closes the pool, and so does
// the guard's Close.
func Open(dsn string, opts ...store.Option) (*store.SQL, error) {
	// pgx redacts the password of a string that it cannot parse.
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: postgres connection string: %w", store.ErrInvalid, err)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(store.DefaultPool)
	db.SetMaxIdleConns(store.DefaultPool)
	return store.OpenSQL(sqlx.NewDb(db, "pgx"), dialect{}, opts...), nil
}

// Raw lends the handler the *pgx.Conn of its transaction, for COPY and
// batches. See [store.Raw] for the rules. On a pool that is not pgx's own the
// error is [store.ErrNoRaw].
func Raw(ctx context.Context, fn func(*pgx.Conn) error) error {
	return store.Raw(ctx, func(dc driver.Conn) error {
		p, ok := dc.(pgxConn)
		if !ok {
			return fmt.Errorf("%w: the pool's driver connection is a %T, not pgx's own", store.ErrNoRaw, dc)
		}
		return fn(p.Conn())
	})
}

// pgxConn is pgx's driver connection, by the one method that we need.
type pgxConn interface{ Conn() *pgx.Conn }

package store

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/jmoiron/sqlx"
)

// ownBound limits each transaction of the engine's own (a batch of the purge,
// a try of the migrations), also against a server that says nothing.
const ownBound = 30 * time.Second

// pinned runs fn on one connection of the application's pool. The connection
// is discarded when fn says so or fails for a reason that may be its own.
func (s *SQL) pinned(ctx context.Context, fn func(ctx context.Context, conn *sqlx.Conn) (keep bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, ownBound)
	defer cancel()
	conn, err := s.db.Connx(ctx)
	if err != nil {
		return err
	}
	keep, err := fn(ctx, conn)
	if !keep || ctx.Err() != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return err
	}
	_ = conn.Close()
	return err
}

// within runs fn in a transaction of its own on conn. The statements are sent
// as text, because a transaction of database/sql would roll back by itself when
// ctx ends, in a goroutine that nobody waits for.
func (s *SQL) within(ctx context.Context, conn *sqlx.Conn, fn func(q Querier) error) error {
	for _, begin := range s.dialect.Begin(s.options.level) {
		if _, err := conn.ExecContext(ctx, begin); err != nil {
			return err
		}
	}
	err := fn(poolQuerier{conn})
	if err == nil {
		if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultRollback)
	defer cancel()
	_, _ = conn.ExecContext(rollback, "ROLLBACK")
	return err
}

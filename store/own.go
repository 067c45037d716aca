package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
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
func (s *SQL) within(ctx context.Context, conn *sqlx.Conn, level sql.IsolationLevel, fn func(q Querier) error) error {
	for _, begin := range s.dialect.Begin(level) {
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

// maxOwnTries bounds how often a transaction of the outbox's meets a conflict.
const maxOwnTries = 5

// transact runs fn in a short transaction of the outbox's own, and in a fresh one
// when the database asks for that. On a database with one writer it waits in
// line with the attempts, and for another process until ownBound is over.
func (s *SQL) transact(ctx context.Context, what string, fn func(ctx context.Context, q Querier) error) error {
	if s.invalid != nil {
		return s.invalid
	}
	if s.queue != nil && InAttempt(ctx, s.db.DB) {
		return ErrNested // it would wait for itself
	}
	began := time.Now()
	for tries := 1; ; tries++ {
		err := s.transactOnce(ctx, fn)
		if err == nil {
			return nil
		}
		fault := s.dialect.Fault(err)
		again := fault == FaultConflict && tries < maxOwnTries || fault == FaultBusy && time.Since(began) < ownBound
		if !again || ctx.Err() != nil {
			return s.ownFailed(ctx, what, err)
		}
		if err := idle(ctx, rand.N(10*time.Millisecond)); err != nil {
			return s.ownFailed(ctx, what, err)
		}
	}
}

func (s *SQL) transactOnce(ctx context.Context, fn func(ctx context.Context, q Querier) error) error {
	if err := s.queue.enter(ctx, ownBound); err != nil {
		return err
	}
	defer s.queue.leave()
	return s.pinned(ctx, func(ctx context.Context, conn *sqlx.Conn) (bool, error) {
		err := s.within(ctx, conn, s.dialect.OwnLevel(s.options.level), func(q Querier) error { return fn(ctx, q) })
		return err == nil, err
	})
}

// asked runs fn, which only reads, on one connection.
func (s *SQL) asked(ctx context.Context, what string, fn func(ctx context.Context, q Querier) error) error {
	if s.invalid != nil {
		return s.invalid
	}
	err := s.pinned(ctx, func(ctx context.Context, conn *sqlx.Conn) (bool, error) {
		err := fn(ctx, poolQuerier{conn})
		return err == nil, err
	})
	if err != nil {
		return s.ownFailed(ctx, what, err)
	}
	return nil
}

// ownFailed places what kept the engine from work of its own.
func (s *SQL) ownFailed(ctx context.Context, what string, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err) // the driver did not say so
	}
	return s.unavailable(what, err)
}

package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// pgxSession speaks to pgx itself: begin and claim in one batch, and a commit
// that reads the command tag and obeys its context.
type pgxSession struct {
	conn  *pgx.Conn
	names *store.Names
	begin string
}

// Begin sends BEGIN and the claim together and waits once.
func (s *pgxSession) Begin(ctx context.Context, row *store.Row) (bool, error) {
	batch := &pgx.Batch{}
	batch.Queue(s.begin)
	batch.Queue(claim(s.names, row), claimArgs(row)...)
	results := s.conn.SendBatch(ctx, batch)
	_, beginErr := results.Exec()
	var claimed bool
	var claimErr error
	if beginErr == nil {
		var rows pgx.Rows
		if rows, claimErr = results.Query(); claimErr == nil {
			claimed = rows.Next()
			rows.Close()
			claimErr = rows.Err()
		}
	}
	closeErr := results.Close()
	for _, err := range []error{beginErr, claimErr, closeErr} {
		if err != nil {
			return false, err
		}
	}
	return claimed, nil
}

// Commit returns nil only when the server answered COMMIT with COMMIT.
func (s *pgxSession) Commit(ctx context.Context) error {
	tag, err := s.conn.Exec(ctx, "commit")
	if err != nil {
		return err
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("%w: the server answered COMMIT with %s", errRolledBack, tag)
	}
	return nil
}

// Rollback leaves the connection outside of any transaction.
func (s *pgxSession) Rollback(ctx context.Context) error {
	if s.conn.IsClosed() {
		return driver.ErrBadConn
	}
	if s.conn.PgConn().TxStatus() == 'I' {
		return nil // BEGIN never arrived
	}
	_, err := s.conn.Exec(ctx, "rollback")
	if err == nil && s.conn.PgConn().TxStatus() != 'I' {
		err = errors.New("a transaction is still open after ROLLBACK")
	}
	return err
}

// Check is [guarded.Checker]: what a handler that had the raw connection left.
func (s *pgxSession) Check() error {
	c := s.conn.PgConn()
	switch {
	case c.IsClosed():
		return driver.ErrBadConn
	case c.IsBusy():
		return fmt.Errorf("%w (on the raw connection)", guarded.ErrBusy)
	case c.TxStatus() == 'E':
		return errors.New("a statement on the raw connection failed")
	case c.TxStatus() != 'T':
		return fmt.Errorf("%w: it was ended on the raw connection", guarded.ErrForbidden)
	}
	return nil
}

// errRolledBack: COMMIT of a transaction that the server had given up on.
var errRolledBack = errors.New("rolled back instead of committed")

// plainSession begins and ends with the driver's own transaction: lib/pq wants
// that, and an instrumented pool shows it to whoever watches. Neither tells
// the command tag of a COMMIT sent as text; their Commit checks it.
type plainSession struct {
	conn  *guarded.Conn
	names *store.Names
	level sql.IsolationLevel
	tx    driver.Tx
	end   context.CancelFunc
}

// Begin sends BEGIN, then the claim.
func (s *plainSession) Begin(ctx context.Context, row *store.Row) (bool, error) {
	beginner, ok := s.conn.Driver().(driver.ConnBeginTx)
	if !ok {
		return false, fmt.Errorf("the driver connection %T cannot begin with options", s.conn.Driver())
	}
	// The drivers keep this context for the whole transaction: lib/pq cancels
	// what runs when it ends, and pgx commits with it. So it must not end with
	// the attempt's; Commit and Rollback end it when their own time is over.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	tx, err := beginner.BeginTx(life, driver.TxOptions{Isolation: driver.IsolationLevel(s.level)})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return false, err
	}
	s.tx, s.end = tx, end
	return dialect{}.Claim(ctx, s.conn, s.names, row)
}

// Commit bounds the driver's commit by ctx.
func (s *plainSession) Commit(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.end)()
	defer s.end()
	err := s.tx.Commit()
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("%w: %w", errRolledBack, err)
	}
	return err
}

// Rollback bounds the driver's rollback by ctx.
func (s *plainSession) Rollback(ctx context.Context) error {
	if s.tx == nil {
		return driver.ErrBadConn // BEGIN failed; nobody knows what arrived
	}
	defer context.AfterFunc(ctx, s.end)()
	defer s.end()
	return s.tx.Rollback()
}

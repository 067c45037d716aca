package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// pgxSession speaks to pgx itself: begin and claim in one batch, and a commit
// that reads the command tag and obeys its context.
type pgxSession struct {
	conn  *pgx.Conn
	names *store.Names
	begin string
	batch *store.Batch
}

// Begin sends BEGIN and the claim together and waits once. For a duplicate it
// sends the questions for the claim that stands and what is left of its outputs,
// and ROLLBACK, together.
func (s *pgxSession) Begin(ctx context.Context, row *store.Row) (*store.Standing, error) {
	batch := &pgx.Batch{}
	batch.Queue(s.begin)
	var claimed bool
	batch.Queue(claim(s.names, row), claimArgs(row)...).Query(func(rows pgx.Rows) error {
		claimed = rows.Next()
		rows.Close()
		return rows.Err()
	})
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil || claimed {
		return nil, err
	}
	var standing *store.Standing
	batch = &pgx.Batch{}
	batch.Queue(find(s.names, row), row.Consumer, row.Key).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			standing = &store.Standing{}
			if err := rows.Scan(&standing.ClaimedAtMicros, &standing.AgeMicros, &standing.Fingerprint, &standing.Unsafe); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if row.Outputs {
		s.queueUnsent(batch, row, &standing)
	}
	batch.Queue("rollback")
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	if standing == nil {
		return nil, store.ErrVanished
	}
	standing.Asked = row.Outputs
	return standing, nil
}

// Commit returns nil only when the server answered COMMIT with COMMIT.
func (s *pgxSession) Commit(ctx context.Context) error {
	if s.batch != nil {
		return s.keepAndCommit(ctx)
	}
	tag, err := s.conn.Exec(ctx, "commit")
	if err != nil {
		return err
	}
	return committed(tag)
}

func committed(tag pgconn.CommandTag) error {
	if tag.String() != "COMMIT" {
		return fmt.Errorf("%w: the server answered COMMIT with %s", pgx.ErrTxCommitRollback, tag)
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

// Break is [store.Breaker]: the pool may be stdlib's over a pgxpool, where a
// connection that database/sql closes is only put back.
func (s *pgxSession) Break() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
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

// plainSession begins and ends with the driver's own transaction: lib/pq wants
// that, and an instrumented pool shows it to whoever watches. Neither tells
// the command tag of a COMMIT sent as text; their Commit checks it.
type plainSession struct {
	conn  *guarded.Conn
	names *store.Names
	level sql.IsolationLevel
	tx    driver.Tx
	end   context.CancelFunc
	batch *store.Batch
}

// Begin sends BEGIN, then the claim.
func (s *plainSession) Begin(ctx context.Context, row *store.Row) (*store.Standing, error) {
	beginner, ok := s.conn.Driver().(driver.ConnBeginTx)
	if !ok {
		return nil, fmt.Errorf("the driver connection %T cannot begin with options", s.conn.Driver())
	}
	// The drivers keep this context for the whole transaction: lib/pq cancels
	// what runs when it ends, and pgx commits with it. So it must not end with
	// the attempt's; Commit and Rollback end it when their own time is over.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	var tx driver.Tx
	err := s.conn.Within(ctx, func() (err error) {
		tx, err = beginner.BeginTx(life, driver.TxOptions{Isolation: driver.IsolationLevel(s.level)})
		return err
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	s.tx, s.end = tx, end
	return store.ClaimOrFind(ctx, dialect{}, s.conn, s.names, row)
}

// Keep is [store.Session]'s.
func (s *plainSession) Keep(b *store.Batch) { s.batch = b }

// Commit bounds the driver's commit by ctx.
func (s *plainSession) Commit(ctx context.Context) error {
	if s.batch != nil {
		if err := (dialect{}).Keep(ctx, s.conn, s.names, s.batch); err != nil {
			return &store.NotKeptError{Err: err}
		}
	}
	defer context.AfterFunc(ctx, s.end)()
	defer s.end()
	return s.conn.Within(ctx, s.tx.Commit)
}

// Rollback bounds the driver's rollback by ctx.
func (s *plainSession) Rollback(ctx context.Context) error {
	if s.tx == nil {
		return driver.ErrBadConn // BEGIN failed; nobody knows what arrived
	}
	defer context.AfterFunc(ctx, s.end)()
	defer s.end()
	return s.conn.Within(ctx, s.tx.Rollback)
}

package sqlite

import (
	"context"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// session begins immediately, so that the transaction is the writer from the
// start: one that reads first and writes later can be refused for good.
type session struct {
	conn  *guarded.Conn
	names *store.Names
	batch *store.Batch
}

func (s *session) Begin(ctx context.Context, row *store.Row) (*store.Standing, error) {
	if _, err := s.conn.Exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	// It is the writer now and waits for nobody, so it needs no bound; a context
	// that can end would cost each statement a goroutine in the driver.
	return store.ClaimOrFind(context.WithoutCancel(ctx), dialect{}, s.conn, s.names, row)
}

// Keep is [store.Session]'s.
func (s *session) Keep(b *store.Batch) { s.batch = b }

// Commit rolls back what could not be committed: SQLite leaves the transaction
// open then. Its time is the disk's, and the pool's busy timeout; an interrupt
// could only make a commit that succeeded look as if it had not.
func (s *session) Commit(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if s.batch != nil {
		if err := (dialect{}).Keep(ctx, s.conn, s.names, s.batch); err != nil {
			return &store.NotKeptError{Err: err}
		}
	}
	_, err := s.conn.Exec(ctx, "COMMIT")
	if err != nil && s.Rollback(ctx) != nil {
		s.conn.Discard()
	}
	return err
}

// Rollback also succeeds when no transaction is open: SQLite ends one itself
// after an interrupt and some errors. A BEGIN tells, because it cannot succeed
// inside a transaction. Discarding the connection instead would lose a database
// in memory.
func (s *session) Rollback(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	_, err := s.conn.Exec(ctx, "ROLLBACK")
	if err == nil {
		return nil
	}
	if _, begin := s.conn.Exec(ctx, "BEGIN"); begin != nil {
		return err
	}
	_, err = s.conn.Exec(ctx, "ROLLBACK")
	return err
}

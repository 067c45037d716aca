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
}

func (s *session) Begin(ctx context.Context, row *store.Row) (bool, error) {
	if _, err := s.conn.Exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	return dialect{}.Claim(ctx, s.conn, s.names, row)
}

// Commit rolls back what could not be committed: SQLite leaves the transaction
// open then.
func (s *session) Commit(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "COMMIT")
	if err != nil {
		if rollback := s.Rollback(context.WithoutCancel(ctx)); rollback != nil {
			s.conn.Discard()
		}
	}
	return err
}

// Rollback also succeeds when no transaction is open: SQLite ends one itself
// after an interrupt and some errors. A BEGIN tells, because it cannot succeed
// inside a transaction. Discarding the connection instead would lose a database
// in memory.
func (s *session) Rollback(ctx context.Context) error {
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

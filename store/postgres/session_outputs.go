package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/watermill-once/watermill-once/store"
)

// Keep is [store.Session]'s.
func (s *pgxSession) Keep(b *store.Batch) { s.batch = b }

// keepAndCommit sends the INSERT of the outputs and COMMIT together and waits
// once. When the INSERT fails the server skips COMMIT.
func (s *pgxSession) keepAndCommit(ctx context.Context) error {
	query, args, err := s.last(ctx)
	if err != nil {
		return &store.NotKeptError{Err: err}
	}
	kept := false
	var tag pgconn.CommandTag
	batch := &pgx.Batch{}
	batch.Queue(query, args...).Exec(func(pgconn.CommandTag) error {
		kept = true
		return nil
	})
	batch.Queue("commit").Exec(func(t pgconn.CommandTag) error {
		tag = t
		return nil
	})
	err = s.conn.SendBatch(ctx, batch).Close()
	switch {
	case err == nil:
		return committed(tag)
	case !kept && s.open():
		return &store.NotKeptError{Err: err}
	default:
		return err
	}
}

// last returns the INSERT that travels with COMMIT, behind those that were sent
// already because one should not carry so much.
func (s *pgxSession) last(ctx context.Context) (query string, args []any, err error) {
	if len(s.batch.Outputs) == 1 {
		return keepOne(s.names, s.batch), oneArgs(s.batch), nil
	}
	query = keep(s.names, s.batch)
	c, to := cut(s.batch, 0)
	for ; to < len(s.batch.Outputs); c, to = cut(s.batch, to) {
		if _, err := s.conn.Exec(ctx, query, c.native(s.batch)...); err != nil {
			return "", nil, err
		}
	}
	return query, c.native(s.batch), nil
}

// open reports whether the server said behind its last answer that the
// transaction is still open, healthy or failed. Who was cut off knows nothing.
func (s *pgxSession) open() bool {
	c := s.conn.PgConn()
	return !c.IsClosed() && !c.IsBusy() && c.TxStatus() != 'I'
}

// queueUnsent asks for the outputs that are left of the claim that was found just
// before.
func (s *pgxSession) queueUnsent(batch *pgx.Batch, row *store.Row, standing **store.Standing) {
	query, args := store.UnsentQuery(dialect{}, s.names, row)
	batch.Queue(query, args...).Query(func(rows pgx.Rows) error {
		var r store.OutputRow
		dest := r.Dest()
		for rows.Next() {
			if err := rows.Scan(dest...); err != nil {
				return err
			}
			o, err := r.Output()
			switch {
			case err == nil && *standing != nil:
				(*standing).Unsent = append((*standing).Unsent, o)
			case err != nil && !errors.Is(err, store.ErrMetadata):
				return err
			}
		}
		return rows.Err()
	})
}

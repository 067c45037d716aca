package mysql

import (
	"context"
	"errors"

	driver "github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// Keep is [store.Session]'s.
func (s *session) Keep(b *store.Batch) { s.batch = b }

// keepAndCommit stores the outputs and commits: on MariaDB in one statement,
// where they fit into one.
func (s *session) keepAndCommit(ctx context.Context) error {
	k := keeps{names: s.names, batch: s.batch}
	for last := false; !last; {
		var query string
		var args []any
		query, args, last = k.take()
		if last && args == nil && len(query) <= maxJoined && s.batch.Row.Server.Variant == variantMariaDB {
			if err := s.joined(ctx, query); !errors.Is(err, driver.ErrPktTooLarge) {
				return err
			}
		}
		if err := k.send(ctx, s.conn, query, args); err != nil {
			return &store.NotKeptError{Err: err}
		}
	}
	_, err := s.conn.Exec(ctx, "COMMIT")
	return err
}

// joined sends the INSERT and COMMIT as one compound statement, which ends at
// its first error. The query between the two tells which of them failed.
func (s *session) joined(ctx context.Context, query string) error {
	answer, err := s.conn.Ask(ctx, "BEGIN NOT ATOMIC "+query+"; SELECT 1; COMMIT; END", nil)
	switch {
	case err == nil && answer == guarded.AnsweredRow:
		return nil
	case err == nil:
		return errors.New("a compound statement ended without the answer to its query")
	case answer == guarded.AnsweredNothing && saidByServer(err):
		return &store.NotKeptError{Err: tooLarge(err)}
	default:
		return err
	}
}

// saidByServer tells an error of the server from one that a client, or a proxy
// that lost its server, makes up: those are numbered from 2000 and from 9000 on.
func saidByServer(err error) bool {
	if errors.Is(err, driver.ErrPktTooLarge) {
		return true // the driver did not send it
	}
	e, ok := errors.AsType[*driver.MySQLError](err)
	return ok && (e.Number < 2000 || e.Number >= 3000) && e.Number < 9000
}

package mysql

import (
	"context"
	"database/sql"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// session begins and ends with statements, since those obey their context; the
// driver's own Commit waits for a silent server for ever.
type session struct {
	conn  *guarded.Conn
	names *store.Names
	level sql.IsolationLevel
	ended bool // rolled back by the server already, behind a duplicate
	batch *store.Batch
}

// Begin begins and claims. MariaDB takes both, and the isolation level of this
// one transaction, as one compound statement, and answers a duplicate with the
// claim that stands, rolled back. When the claim in it fails otherwise the transaction stays
// open, as it would with statements sent one by one.
func (s *session) Begin(ctx context.Context, row *store.Row) (*store.Standing, error) {
	if row.Server.Variant == variantMariaDB {
		return s.compound(ctx, row)
	}
	if row.Server.Level != s.level {
		if _, err := s.conn.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL "+levelSQL[s.level]); err != nil {
			return nil, err
		}
	}
	if _, err := s.conn.Exec(ctx, "START TRANSACTION"); err != nil {
		return nil, err
	}
	return store.ClaimOrFind(ctx, dialect{}, s.conn, s.names, row)
}

// compound tells a new claim from one that stood in the way by whether there was
// a result set at all: the handler's query answers with one also when the claim
// has vanished, an empty one then.
func (s *session) compound(ctx context.Context, row *store.Row) (*store.Standing, error) {
	var standing store.Standing
	answer, err := s.conn.Ask(ctx, "BEGIN NOT ATOMIC "+
		"DECLARE EXIT HANDLER FOR 1062 BEGIN "+find(s.names, row)+"; ROLLBACK; END; "+
		"SET TRANSACTION ISOLATION LEVEL "+levelSQL[s.level]+"; START TRANSACTION; "+
		"SET STATEMENT "+bound(row.Wait)+" FOR "+insert(s.names, row)+"; END",
		nil, &standing.ClaimedAtMicros, &standing.AgeMicros, &standing.Fingerprint)
	if err != nil {
		return nil, explain(err)
	}
	s.ended = answer != guarded.AnsweredNothing
	switch answer {
	case guarded.AnsweredNothing:
		return nil, nil
	case guarded.AnsweredEmpty:
		return nil, store.ErrVanished
	default:
		return &standing, nil
	}
}

func (s *session) Commit(ctx context.Context) error {
	if s.batch != nil {
		return s.keepAndCommit(ctx)
	}
	_, err := s.conn.Exec(ctx, "COMMIT")
	return err
}

func (s *session) Rollback(ctx context.Context) error {
	if s.ended {
		return nil
	}
	_, err := s.conn.Exec(ctx, "ROLLBACK")
	return err
}

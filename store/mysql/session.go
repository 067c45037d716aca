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

func (s *session) compound(ctx context.Context, row *store.Row) (*store.Standing, error) {
	var standing store.Standing
	var duplicate int64
	_, err := s.conn.QueryRow(ctx, "BEGIN NOT ATOMIC "+
		// Always one row, so that a claim that vanished is not a new one.
		"DECLARE EXIT HANDLER FOR 1062 BEGIN SELECT COUNT(*) + 1, "+findColumns(row, "MAX")+findFrom(s.names, row)+"; ROLLBACK; END; "+
		"SET TRANSACTION ISOLATION LEVEL "+levelSQL[s.level]+"; START TRANSACTION; "+
		"SET STATEMENT "+bound(row.Wait)+" FOR "+insert(s.names, row)+"; END",
		nil, &duplicate, &standing.ClaimedAtMicros, &standing.AgeMicros, &standing.Fingerprint)
	s.ended = err == nil && duplicate > 0
	switch {
	case err != nil || duplicate == 0:
		return nil, explain(err)
	case duplicate == 1:
		return nil, store.ErrVanished
	default:
		return &standing, nil
	}
}

func (s *session) Commit(ctx context.Context) error {
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

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
}

// Begin begins and claims. MariaDB takes both, and the isolation level of this
// one transaction, as one compound statement. When the claim in it fails the
// transaction stays open, as it would with statements sent one by one.
func (s *session) Begin(ctx context.Context, row *store.Row) (bool, error) {
	if row.Server.Variant == variantMariaDB {
		return claimed(s.conn.Exec(ctx, "BEGIN NOT ATOMIC SET TRANSACTION ISOLATION LEVEL "+levelSQL[s.level]+
			"; START TRANSACTION; SET STATEMENT "+bound(row.Wait)+" FOR "+insert(s.names, row)+"; END"))
	}
	if row.Server.Level != s.level {
		if _, err := s.conn.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL "+levelSQL[s.level]); err != nil {
			return false, err
		}
	}
	if _, err := s.conn.Exec(ctx, "START TRANSACTION"); err != nil {
		return false, err
	}
	return dialect{}.Claim(ctx, s.conn, s.names, row)
}

func (s *session) Commit(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "COMMIT")
	return err
}

func (s *session) Rollback(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "ROLLBACK")
	return err
}

package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

//go:embed migrations/*.sql
var migrations embed.FS

// dialect is SQLite's [store.Dialect].
type dialect struct{}

func (dialect) Name() string             { return "sqlite" }
func (dialect) Drivers() []string        { return []string{"sqlite"} }
func (dialect) Quote(name string) string { return `"` + name + `"` }
func (dialect) Migrations() fs.FS        { return migrations }
func (dialect) Grants() string {
	return "-- SQLite has no roles: whoever may write the file may use it.\n"
}
func (dialect) CommitsDDL() bool              { return false }
func (dialect) OneWriter() bool               { return true }
func (dialect) CheckWait(time.Duration) error { return nil }

func (dialect) Isolation(level sql.IsolationLevel) (sql.IsolationLevel, error) {
	if level != sql.LevelDefault && level != sql.LevelSerializable {
		return level, fmt.Errorf("%w: isolation level %s: SQLite has its own only (serializable)", store.ErrInvalid, level)
	}
	return sql.LevelDefault, nil
}

// Now counts microseconds since 1970. SQLite's clock is this machine's, which
// Go reads too, and faster: unixepoch() was a tenth of an attempt.
func (dialect) Now(t *time.Time) string {
	if t == nil {
		now := time.Now()
		t = &now
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

func (dialect) Rules(func() int64) guarded.Rules {
	return guarded.Rules{
		Brackets:         true,
		EndCommits:       true,
		MaxStatement:     func() int64 { return 1_000_000_000 },
		MaxStatementName: "SQLITE_MAX_LENGTH",
	}
}

func (dialect) Session(c *guarded.Conn, n *store.Names, _ sql.IsolationLevel) store.Session {
	return &session{conn: c, names: n}
}

func (dialect) Claim(ctx context.Context, q store.Querier, n *store.Names, row *store.Row) (bool, error) {
	affected, err := q.Exec(ctx, `INSERT INTO `+n.Claims+` (consumer, "key", fingerprint, claimed_at) VALUES (?, ?, ?, `+row.Now+`) ON CONFLICT DO NOTHING`,
		row.Consumer, row.Key, orNull(row.Fingerprint))
	return affected == 1, err
}

func orNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func (dialect) Find(ctx context.Context, q store.Querier, n *store.Names, row *store.Row) (store.Standing, bool, error) {
	var s store.Standing
	found, err := q.QueryRow(ctx, `SELECT claimed_at, `+row.Now+` - claimed_at, fingerprint FROM `+n.Claims+` WHERE consumer = ? AND "key" = ?`,
		[]any{row.Consumer, row.Key}, &s.ClaimedAtMicros, &s.AgeMicros, &s.Fingerprint)
	return s, found, err
}

// Settle has nothing to do: Find never reports an unsafe claim.
func (dialect) Settle(context.Context, store.Querier) error { return nil }

func (dialect) Begin(sql.IsolationLevel) []string { return []string{"BEGIN IMMEDIATE"} }

func (dialect) Purging(n *store.Names) store.Purging {
	return store.Purging{
		Lock:    `SELECT db_at, wall_at, %s FROM ` + n.State + ` WHERE name = 'purge'`,
		Record:  `UPDATE ` + n.State + ` SET db_at = %d, wall_at = %d WHERE name = 'purge'`,
		Expired: `SELECT COALESCE(SUM(claimed_at < %d), 0), COUNT(*) FROM ` + n.Claims,
		Delete: `DELETE FROM ` + n.Claims + ` WHERE (consumer, "key") IN (SELECT consumer, "key" FROM ` + n.Claims + ` c
	WHERE claimed_at < %[1]d AND NOT EXISTS (SELECT 1 FROM ` + n.Outputs + ` o WHERE o.consumer = c.consumer AND o."key" = c."key")
	ORDER BY claimed_at LIMIT %[2]d)`,
	}
}

// Migrator needs no lock: the transaction is the file's one writer.
func (dialect) Migrator(n *store.Names) store.Migrator {
	return store.Migrator{
		Table:  `CREATE TABLE IF NOT EXISTS ` + n.Migrations + ` (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) STRICT`,
		Record: `INSERT INTO ` + n.Migrations + ` (version) VALUES (%d)`,
		Race:   func(error) bool { return false },
	}
}

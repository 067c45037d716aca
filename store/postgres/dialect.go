package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed grants.sql
var grants string

// dialect is PostgreSQL's [store.Dialect].
type dialect struct{}

func (dialect) Name() string                  { return "postgres" }
func (dialect) Drivers() []string             { return []string{"pgx", "postgres"} }
func (dialect) Quote(name string) string      { return `"` + name + `"` }
func (dialect) Migrations() fs.FS             { return migrations }
func (dialect) Grants() string                { return grants }
func (dialect) CommitsDDL() bool              { return false }
func (dialect) OneWriter() bool               { return false }
func (dialect) CheckWait(time.Duration) error { return nil }

func (dialect) Isolation(level sql.IsolationLevel) (sql.IsolationLevel, error) {
	switch level {
	case sql.LevelDefault:
		return sql.LevelReadCommitted, nil
	case sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		return level, nil
	default:
		return level, fmt.Errorf("%w: isolation level %s: PostgreSQL has read committed, repeatable read and serializable", store.ErrInvalid, level)
	}
}

func (dialect) Now(t *time.Time) string {
	if t == nil {
		return "pg_catalog.clock_timestamp()"
	}
	return "timestamptz '" + t.UTC().Format("2006-01-02 15:04:05.999999Z07:00") + "'"
}

func (dialect) Rules(func() int64) guarded.Rules {
	return guarded.Rules{
		DollarQuotes:   true,
		NestedComments: true,
		EndCommits:     true,
		// The protocol's limit for a message, with room for its frame.
		MaxStatement:     func() int64 { return 1<<30 - 1<<10 },
		MaxStatementName: "the protocol's largest message",
	}
}

func (dialect) Session(c *guarded.Conn, n *store.Names, level sql.IsolationLevel) store.Session {
	if p, ok := c.Driver().(pgxConn); ok {
		return &pgxSession{conn: p.Conn(), names: n, begin: beginSQL[level]}
	}
	c.CutOff() // lib/pq, or one that cannot be told from it
	return &plainSession{conn: c, names: n, level: level}
}

var beginSQL = map[sql.IsolationLevel]string{
	sql.LevelReadCommitted:  "begin isolation level read committed",
	sql.LevelRepeatableRead: "begin isolation level repeatable read",
	sql.LevelSerializable:   "begin isolation level serializable",
}

// claim is the claim's one statement. It bounds the wait for a copy in flight
// without a statement of its own: lock_timeout is set, for this transaction
// only, before the row is tried, and put back to what the application had when
// the row was inserted. When it was not inserted the transaction writes
// nothing and is rolled back, and the setting with it.
func claim(n *store.Names, row *store.Row) string {
	return `INSERT INTO ` + n.Claims + ` (consumer, key, fingerprint, claimed_at)
SELECT $1::text, $2::bytea, $3::bytea, ` + row.Now + `
FROM (SELECT pg_catalog.set_config('once.lock_timeout', pg_catalog.current_setting('lock_timeout'), true),
	pg_catalog.set_config('lock_timeout', $4::text, true) AS bound) s
WHERE bound IS NOT NULL
ON CONFLICT (consumer, key) DO NOTHING
RETURNING pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('once.lock_timeout'), true)`
}

func claimArgs(row *store.Row) []any {
	// At least 1 ms: 0 would mean no bound.
	bound := strconv.FormatInt(max(1, row.Wait.Milliseconds()), 10) + "ms"
	var fingerprint any
	if row.Fingerprint != nil {
		fingerprint = row.Fingerprint
	}
	return []any{row.Consumer, row.Key, fingerprint, bound}
}

func (dialect) Claim(ctx context.Context, q store.Querier, n *store.Names, row *store.Row) (bool, error) {
	return q.QueryRow(ctx, claim(n, row), claimArgs(row))
}

// find reads the claim that stands, and whether synchronous standbys are set:
// then it may be visible before they have it.
func find(n *store.Names, row *store.Row) string {
	return `SELECT (extract(epoch FROM claimed_at) * 1000000)::bigint,
	(extract(epoch FROM ` + row.Now + ` - claimed_at) * 1000000)::bigint, fingerprint,
	pg_catalog.current_setting('synchronous_standby_names') <> '' AND pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local')
FROM ` + n.Claims + ` WHERE consumer = $1 AND key = $2`
}

func (dialect) Find(ctx context.Context, q store.Querier, n *store.Names, row *store.Row) (store.Standing, bool, error) {
	var s store.Standing
	found, err := q.QueryRow(ctx, find(n, row), []any{row.Consumer, row.Key}, &s.ClaimedAtMicros, &s.AgeMicros, &s.Fingerprint, &s.Unsafe)
	return s, found, err
}

// Settle writes WAL in a transaction of its own, whose commit waits for the
// standbys and with it for everything that was written before.
func (dialect) Settle(ctx context.Context, q store.Querier) error {
	_, err := q.QueryRow(ctx, `SELECT pg_catalog.pg_logical_emit_message(true, 'watermill-once', '')::text`, nil)
	return err
}

func (dialect) Begin(level sql.IsolationLevel) []string { return []string{beginSQL[level]} }

func (dialect) Purging(n *store.Names) store.Purging {
	return store.Purging{
		Lock:    `SELECT db_at, wall_at, (extract(epoch FROM %s) * 1000000)::bigint FROM ` + n.State + ` WHERE name = 'purge' FOR UPDATE SKIP LOCKED`,
		Record:  `UPDATE ` + n.State + ` SET db_at = %d, wall_at = %d WHERE name = 'purge'`,
		Expired: `SELECT count(*) FILTER (WHERE claimed_at < to_timestamp(%d / 1000000.0)), count(*) FROM ` + n.Claims,
		Delete: `DELETE FROM ` + n.Claims + ` WHERE (consumer, key) IN (
	SELECT consumer, key FROM ` + n.Claims + ` c
	WHERE claimed_at < to_timestamp(%[1]d / 1000000.0)
		AND NOT EXISTS (SELECT FROM ` + n.Outputs + ` o WHERE o.consumer = c.consumer AND o.key = c.key)
	ORDER BY claimed_at LIMIT %[2]d FOR UPDATE SKIP LOCKED)`,
	}
}

// Migrator locks the table of applied steps itself: advisory locks can be
// forbidden, or be replaced by functions that do nothing.
func (dialect) Migrator(n *store.Names) store.Migrator {
	return store.Migrator{
		Bound: []string{"SET lock_timeout = '2s'"},
		Table: `CREATE TABLE IF NOT EXISTS ` + n.Migrations + ` (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`,
		Lock:  `LOCK TABLE ` + n.Migrations + ` IN EXCLUSIVE MODE`, LockRequired: true,
		Record: `INSERT INTO ` + n.Migrations + ` (version) VALUES (%d)`,
		Race:   isRace,
		Blockers: `SELECT format('pid %s (%s, %s, transaction of %s): %s', a.pid, a.usename, a.application_name,
	date_trunc('second', clock_timestamp() - a.xact_start), left(a.query, 100))
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a USING (pid)
WHERE l.relation IN (to_regclass('` + n.Claims + `'), to_regclass('` + n.Outputs + `'), to_regclass('` + n.State + `'), to_regclass('` + n.Migrations + `'))
	AND l.granted AND a.pid <> pg_backend_pid()
GROUP BY a.pid, a.usename, a.application_name, a.xact_start, a.query ORDER BY a.xact_start LIMIT 5`,
	}
}

// isRace: another session created the same thing at the same moment, which IF
// NOT EXISTS does not prevent.
func isRace(err error) bool {
	var s sqlState
	if !errors.As(err, &s) {
		return false
	}
	switch s.SQLState() {
	case "23505", "42P07", "42710", "42701", "XX000":
		return true
	}
	return false
}

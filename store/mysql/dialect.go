package mysql

import (
	"context"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed grants.sql
var grants string

// dialect is MariaDB's and MySQL's [store.Dialect].
type dialect struct{}

func (dialect) Name() string             { return "mysql" }
func (dialect) Drivers() []string        { return []string{"mysql"} }
func (dialect) Quote(name string) string { return "`" + name + "`" }
func (dialect) Migrations() fs.FS        { return migrations }
func (dialect) Grants() string           { return grants }
func (dialect) CommitsDDL() bool         { return true }
func (dialect) OneWriter() bool          { return false }

// CheckWait: the server's bound is in whole seconds. A fraction is refused
// rather than rounded, and a context is no bound: the server goes on waiting
// behind a client that left, and may apply the insert later.
func (dialect) CheckWait(wait time.Duration) error {
	if wait < time.Second || wait%time.Second != 0 {
		return fmt.Errorf("%w: a claim wait of %s: innodb_lock_wait_timeout counts whole seconds, so use 1s or a multiple of it", store.ErrInvalid, wait)
	}
	return nil
}

var levelSQL = map[sql.IsolationLevel]string{
	sql.LevelReadCommitted:  "READ COMMITTED",
	sql.LevelRepeatableRead: "REPEATABLE READ",
	sql.LevelSerializable:   "SERIALIZABLE",
}

func (dialect) Isolation(level sql.IsolationLevel) (sql.IsolationLevel, error) {
	if level == sql.LevelDefault {
		return sql.LevelReadCommitted, nil
	}
	if levelSQL[level] == "" {
		return level, fmt.Errorf("%w: isolation level %s: use read committed, repeatable read or serializable", store.ErrInvalid, level)
	}
	return level, nil
}

func (dialect) Now(t *time.Time) string {
	if t == nil {
		return "UTC_TIMESTAMP(6)"
	}
	return "TIMESTAMP'" + t.UTC().Format("2006-01-02 15:04:05.000000") + "'"
}

func (dialect) Rules(limit func() int64) guarded.Rules {
	return guarded.Rules{
		Backslash:        true,
		HashComments:     true,
		Executable:       true,
		ImplicitCommit:   true,
		MaxStatement:     limit,
		MaxStatementName: "max_allowed_packet",
		TooLarge: func(err error) bool {
			e, ok := errors.AsType[*driver.MySQLError](err)
			return ok && e.Number == errPacket
		},
	}
}

func (dialect) Session(c *guarded.Conn, n *store.Names, level sql.IsolationLevel) store.Session {
	return &session{conn: c, names: n, level: level}
}

// insert carries its values as hex literals: with arguments the driver would
// send prepare, execute and close for it. A plain INSERT, neither IGNORE nor ON
// DUPLICATE KEY UPDATE: the first turns every other error into a warning, the
// second reports a duplicate as a row affected under clientFoundRows.
func insert(n *store.Names, row *store.Row) string {
	return "INSERT INTO " + n.Claims + " (consumer, `key`, fingerprint, claimed_at) VALUES (" +
		literal([]byte(row.Consumer)) + ", " + literal(row.Key) + ", " + literal(row.Fingerprint) + ", " + row.Now + ")"
}

// bound limits the wait for a row's lock and for the table's.
func bound(wait time.Duration) string {
	seconds := strconv.FormatInt(int64(wait/time.Second), 10)
	return "innodb_lock_wait_timeout=" + seconds + ", lock_wait_timeout=" + seconds
}

func literal(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return "x'" + hex.EncodeToString(b) + "'"
}

// claimed reads the answer to insert.
func claimed(_ int64, err error) (bool, error) {
	if e, ok := errors.AsType[*driver.MySQLError](err); ok && e.Number == errDuplicate {
		return false, nil
	}
	return err == nil, explain(err)
}

// explain names the way out where there is one.
func explain(err error) error {
	e, ok := errors.AsType[*driver.MySQLError](err)
	switch {
	case ok && e.Number == errProxy:
		return fmt.Errorf("a proxy refused the claim, which is not in plain SQL: open the store with mysql.Plain(): %w", err)
	case ok && e.Number == errBinlog:
		return fmt.Errorf("binlog_format=STATEMENT forbids writes at this isolation level: set it to ROW or MIXED, or give the store WithIsolation(sql.LevelRepeatableRead): %w", err)
	default:
		return err
	}
}

func (dialect) Claim(ctx context.Context, q store.Querier, n *store.Names, row *store.Row) (bool, error) {
	prefix := ""
	if row.Server.Variant == variantMariaDB {
		prefix = "SET STATEMENT " + bound(row.Wait) + " FOR "
	}
	return claimed(q.Exec(ctx, prefix+insert(n, row)))
}

// find reads when the claim was made, its age, and its fingerprint.
func find(n *store.Names, row *store.Row) string {
	return "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', claimed_at), TIMESTAMPDIFF(MICROSECOND, claimed_at, " + row.Now + "), fingerprint" +
		" FROM " + n.Claims + " WHERE consumer = " + literal([]byte(row.Consumer)) + " AND `key` = " + literal(row.Key)
}

func (dialect) Find(ctx context.Context, q store.Querier, n *store.Names, row *store.Row) (store.Standing, bool, error) {
	var s store.Standing
	found, err := q.QueryRow(ctx, find(n, row), nil, &s.ClaimedAtMicros, &s.AgeMicros, &s.Fingerprint)
	return s, found, err
}

// Settle has nothing to do: Find never reports an unsafe claim.
func (dialect) Settle(context.Context, store.Querier) error { return nil }

func (dialect) Begin(level sql.IsolationLevel) []string {
	return []string{"SET TRANSACTION ISOLATION LEVEL " + levelSQL[level], "START TRANSACTION"}
}

// Purging finds the keys in a derived table and deletes by primary key: a
// DELETE by age would lock the gaps between claims, where new ones go.
func (dialect) Purging(n *store.Names) store.Purging {
	return store.Purging{
		Lock:    "SELECT db_at, wall_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', %s) FROM " + n.State + " WHERE name = 'purge' FOR UPDATE SKIP LOCKED",
		Record:  "UPDATE " + n.State + " SET db_at = %d, wall_at = %d WHERE name = 'purge'",
		Expired: "SELECT COALESCE(SUM(claimed_at < '1970-01-01' + INTERVAL %d MICROSECOND), 0), COUNT(*) FROM " + n.Claims,
		Delete: "DELETE c FROM " + n.Claims + " c JOIN (SELECT consumer, `key` FROM " + n.Claims + " k " +
			"WHERE claimed_at < '1970-01-01' + INTERVAL %[1]d MICROSECOND " +
			"AND NOT EXISTS (SELECT 1 FROM " + n.Outputs + " o WHERE o.consumer = k.consumer AND o.`key` = k.`key`) " +
			"ORDER BY claimed_at LIMIT %[2]d) s ON c.consumer = s.consumer AND c.`key` = s.`key`",
	}
}

func (dialect) Migrator(n *store.Names) store.Migrator {
	return store.Migrator{
		Bound:  []string{"SET SESSION lock_wait_timeout = 2, innodb_lock_wait_timeout = 2"},
		Table:  "CREATE TABLE IF NOT EXISTS " + n.Migrations + " (version INT NOT NULL PRIMARY KEY, applied_at DATETIME(6) NOT NULL) ENGINE=InnoDB",
		Lock:   "DO GET_LOCK(CONCAT('watermill-once ', SHA1(CONCAT(DATABASE(), " + literal([]byte(n.Claims)) + "))), 10)",
		Record: "INSERT INTO " + n.Migrations + " (version, applied_at) VALUES (%d, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE version = version",
		Race: func(err error) bool {
			var e *driver.MySQLError
			return errors.As(err, &e) && (e.Number == 1050 || e.Number == 1060 || e.Number == 1061 || e.Number == 1684)
		},
		Blockers: "SELECT CONCAT('connection ', trx_mysql_thread_id, ' (transaction since ', trx_started, '): ', COALESCE(LEFT(trx_query, 100), 'idle')) " +
			"FROM information_schema.innodb_trx ORDER BY trx_started LIMIT 5",
	}
}

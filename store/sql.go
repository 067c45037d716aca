package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// SQL is the [Store] over an SQL database. It is made by New or Open of the
// packages postgres, mysql and sqlite. It is safe for concurrent use.
type SQL struct {
	db      *sqlx.DB
	dialect Dialect
	names   *Names
	options options
	pool    *guarded.Pool
	queue   queue
	server  atomic.Pointer[Server]
	owned   bool // db was opened by us
	purged  lastPurge
	ids     outputIDs
	invalid error
}

// The interfaces that the guard looks for.
var (
	_ Store     = (*SQL)(nil)
	_ Validator = (*SQL)(nil)
	_ Verifier  = (*SQL)(nil)
	_ Pinger    = (*SQL)(nil)
	_ Pooled    = (*SQL)(nil)
	_ Inspector = (*SQL)(nil)

	_ OutboxInspector = (*SQL)(nil)
)

// Option changes a setting of [SQL].
type Option func(*options)

type options struct {
	prefix, schema string
	level          sql.IsolationLevel
	direct         bool
	now            func() time.Time
	variant        string
	logger         *slog.Logger
}

// WithPrefix sets what the names of all tables begin with. Default "once_".
// Lower-case letters, digits and underscores, at most 32.
func WithPrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// WithSchema sets the schema (PostgreSQL) or database (MySQL) of the tables.
// Default: where the connection looks first. SQLite has none.
func WithSchema(schema string) Option { return func(o *options) { o.schema = schema } }

// WithIsolation sets the isolation level of the claim's transaction, which is
// the handler's. Default [sql.LevelReadCommitted]; SQLite has its own only.
// Above read committed a claim may end in a serialization failure; it is then
// tried again in a fresh transaction, before the handler runs.
func WithIsolation(level sql.IsolationLevel) Option { return func(o *options) { o.level = level } }

// WithNow replaces the database's clock, for tests.
func WithNow(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithLogger sets where [SQL.Migrate] says what it does and whom it waits for.
// Default: [slog.Default] at the time of the call.
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithVariant overrides what the dialect found out about the server; the
// dialect package says which variants it knows.
func WithVariant(variant string) Option { return func(o *options) { o.variant = variant } }

// Direct begins transactions on the application's pool instead of a guarded
// connection. Statements prepared on the pool can then be used with tx.Stmt.
// What is lost stands in docs/databases.md; the gravest: on MySQL and SQLite a
// handler that swallows an error may commit half of its writes.
func Direct() Option { return func(o *options) { o.direct = true } }

// NewSQL returns the store over db for a dialect. For the dialect packages. A
// setting that cannot work is the error of every method, and of
// [SQL.Validate], which once.New asks.
func NewSQL(db *sqlx.DB, dialect Dialect, opts ...Option) *SQL {
	s := &SQL{db: db, dialect: dialect, options: options{prefix: DefaultPrefix}}
	for _, opt := range opts {
		opt(&s.options)
	}
	s.names, s.invalid = newNames(s.options.prefix, s.options.schema, dialect.Quote)
	if s.invalid == nil {
		s.options.level, s.invalid = dialect.Isolation(s.options.level)
	}
	if s.invalid == nil && db != nil {
		s.invalid = checkDriver(db.DriverName(), dialect)
	}
	if db == nil {
		s.invalid = fmt.Errorf("%w: the pool is nil", ErrInvalid)
		return s
	}
	s.pool = guarded.NewPool(db, dialect.Rules(func() int64 { return s.known().MaxStatement }))
	if dialect.OneWriter() {
		s.queue = make(queue, 1)
	}
	return s
}

// DefaultPool is how many connections a pool has that the Open function of a
// dialect package opened: more than the guard's default limit of 16 attempts.
// Change it with DB().SetMaxOpenConns.
const DefaultPool = 20

// checkDriver refuses a pool that is known to be another database's.
func checkDriver(name string, dialect Dialect) error {
	owner := map[string]string{
		"pgx": "postgres", "postgres": "postgres", "mysql": "mysql", "sqlite": "sqlite", "sqlite3": "sqlite",
	}[name]
	if owner == "" || owner == dialect.Name() {
		return nil
	}
	return fmt.Errorf("%w: the pool's driver is %q, but the store was made by package %s: use %s.New(db)", ErrInvalid, name, dialect.Name(), owner)
}

// OpenSQL is NewSQL over a pool that the store opened itself and closes.
func OpenSQL(db *sqlx.DB, dialect Dialect, opts ...Option) *SQL {
	s := NewSQL(db, dialect, opts...)
	s.owned = true
	return s
}

func (s *SQL) logger() *slog.Logger {
	if s.options.logger != nil {
		return s.options.logger
	}
	return slog.Default()
}

// DB returns the pool that the store was made with.
func (s *SQL) DB() *sqlx.DB { return s.db }

// Preparer returns the handle whose prepared statements can be used with
// tx.Stmt in an attempt: database/sql refuses those of any other handle. They
// are prepared again on each attempt's connection. It borrows from the
// application's pool and begins no transactions.
func (s *SQL) Preparer() *sqlx.DB {
	if s.options.direct {
		return s.db
	}
	return s.pool.Handle()
}

// Close releases what the store opened itself: its private handle, and the
// pool if it came from a DSN. It never closes an application's pool. The store
// of an application's pool may be used again afterwards.
func (s *SQL) Close() error {
	if s.pool == nil {
		return nil
	}
	err := s.pool.Close()
	if s.owned {
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// MaxOpenConns returns how many connections the pool may open; 0 is unlimited.
func (s *SQL) MaxOpenConns() int { return s.db.Stats().MaxOpenConnections }

// Ping says whether a claim could be made now: whether the database answers
// and the claims can be read.
func (s *SQL) Ping(ctx context.Context) error {
	if s.invalid != nil {
		return s.invalid
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultAcquire)
	defer cancel()
	var n int64
	q := poolQuerier{s.db}
	if _, err := q.QueryRow(ctx, "SELECT COUNT(*) FROM "+s.names.Claims+" WHERE 1 = 0", nil, &n); err != nil {
		return s.unavailable("ping", err)
	}
	return nil
}

// known returns what Inspect found, or nothing before it ran.
func (s *SQL) known() Server {
	if p := s.server.Load(); p != nil {
		return *p
	}
	return Server{}
}

// inspect asks the server for its settings.
func (s *SQL) inspect(ctx context.Context) (Server, []Finding, error) {
	server, findings, err := s.dialect.Inspect(ctx, s.db, s.options.level)
	if err != nil {
		return server, nil, s.unavailable("ask the server for its settings", err)
	}
	if s.options.variant != "" {
		server.Variant = s.options.variant
	}
	s.server.Store(&server)
	return server, append(findings, s.driverFinding()...), nil
}

// inspected returns what inspect found, asking the server the first time.
func (s *SQL) inspected(ctx context.Context) (Server, error) {
	if p := s.server.Load(); p != nil {
		return *p, nil
	}
	server, _, err := s.inspect(ctx)
	return server, err
}

// driverFinding warns about a pool whose driver name the dialect does not know:
// sqlx would rebind placeholders in a way that the database may not take.
func (s *SQL) driverFinding() []Finding {
	name := s.db.DriverName()
	if slices.Contains(s.dialect.Drivers(), name) {
		return nil
	}
	return []Finding{{
		Setting: "sqlx driver name", Value: name,
		Problem: "sqlx chooses the placeholders of Rebind and NamedExec by this name and does not know it, so a handler's statements may be malformed",
		Fix:     fmt.Sprintf("wrap the pool with sqlx.NewDb(db, %q)", strings.Join(s.dialect.Drivers(), `" or "`)),
	}}
}

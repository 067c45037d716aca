package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// accounts is how many rows the handler's UPDATE is spread over: one a worker.
const accounts = 64

// database is one database with both ways to handle a message on one pool.
type database struct {
	name           string
	store          *store.SQL
	db             *sqlx.DB
	options        *sql.TxOptions // of the handwritten transaction
	insert, update string
	outbox         string // the handwritten way to keep an output; empty: not measured
	want           string // the ratio to reach
	payload        []byte
}

func newDatabase(ctx context.Context, name, want string, s *store.SQL, options *sql.TxOptions, seen ...string) (*database, error) {
	d := &database{name: name, store: s, db: s.DB(), options: options, want: want, payload: make([]byte, 1024)}
	if err := fresh(ctx, s); err != nil {
		return nil, err
	}
	// As many connections as anybody wants, none of them opened meanwhile.
	d.db.SetMaxOpenConns(store.DefaultPool)
	d.db.SetMaxIdleConns(store.DefaultPool)
	statements := append([]string{"DROP TABLE IF EXISTS bench_seen", "DROP TABLE IF EXISTS bench_accounts"}, seen[:len(seen)-1]...)
	statements = append(statements, "CREATE TABLE bench_accounts (id INT PRIMARY KEY, n INT NOT NULL)")
	rows := make([]string, accounts)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, 0)", i)
	}
	statements = append(statements, "INSERT INTO bench_accounts VALUES "+strings.Join(rows, ", "))
	for _, q := range statements {
		if _, err := d.db.ExecContext(ctx, q); err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
	}
	d.insert = d.db.Rebind(seen[len(seen)-1])
	d.update = d.db.Rebind("UPDATE bench_accounts SET n = n + 1 WHERE id = ?")
	return d, nil
}

// fresh makes our tables anew, as those of the peer are: claims that earlier runs
// left would make the index deeper, and each insert touch a page of its own.
func fresh(ctx context.Context, s *store.SQL) error {
	for _, drop := range []string{
		"VIEW IF EXISTS bench_claims_text", "TABLE IF EXISTS bench_claims", "TABLE IF EXISTS bench_outputs",
		"TABLE IF EXISTS bench_state", "TABLE IF EXISTS bench_migrations",
	} {
		if _, err := s.DB().ExecContext(ctx, "DROP "+drop); err != nil {
			return err
		}
	}
	return s.Migrate(ctx)
}

// quiet keeps the migration's progress out of the figures.
func quiet() store.Option { return store.WithLogger(slog.New(slog.DiscardHandler)) }

// The handwritten table has what it needs for the same job: the claim's key,
// its time, and the index without which nobody could purge it.

func postgresDB(ctx context.Context) (*database, error) {
	dsn := os.Getenv("ONCE_TEST_POSTGRES")
	if dsn == "" {
		return nil, nil
	}
	s, err := postgres.Open(dsn, store.WithPrefix("bench_"), quiet())
	if err != nil {
		return nil, err
	}
	d, err := newDatabase(ctx, "postgres", "0.95", s, &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		`DROP TABLE IF EXISTS bench_outbox`,
		`CREATE TABLE bench_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, uuid text NOT NULL, topic text NOT NULL,
			metadata jsonb NOT NULL, payload bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`,
		`CREATE INDEX ON bench_outbox (created_at)`,
		`CREATE TABLE bench_seen (consumer text COLLATE "C", id text COLLATE "C", seen_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (consumer, id))`,
		`CREATE INDEX ON bench_seen (seen_at)`,
		`INSERT INTO bench_seen (consumer, id) VALUES (?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return nil, err
	}
	d.outbox = `INSERT INTO bench_outbox (uuid, topic, metadata, payload) VALUES ($1, $2, $3, $4)`
	return d, nil
}

func mariaDB(ctx context.Context) (*database, error) {
	dsn := os.Getenv("ONCE_TEST_MARIADB")
	if dsn == "" {
		return nil, nil
	}
	admin, err := sqlx.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	defer admin.Close() // it only made the database
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS once_bench"); err != nil {
		return nil, err
	}
	s, err := mysql.Open(strings.Replace(dsn, ")/", ")/once_bench", 1), store.WithPrefix("bench_"), quiet())
	if err != nil {
		return nil, err
	}
	return newDatabase(ctx, "mariadb", "0.95", s, &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		"CREATE TABLE bench_seen (consumer VARBINARY(255), id VARBINARY(64), seen_at DATETIME(6) NOT NULL DEFAULT NOW(6), PRIMARY KEY (consumer, id), KEY (seen_at))",
		"INSERT IGNORE INTO bench_seen (consumer, id) VALUES (?, ?)")
}

func sqliteDB(ctx context.Context) (*database, error) {
	dir, err := os.MkdirTemp("", "once-bench-")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { os.RemoveAll(dir) })
	s, err := sqlite.Open(filepath.Join(dir, "bench.db"), quiet())
	if err != nil {
		return nil, err
	}
	return newDatabase(ctx, "sqlite", "0.85", s, nil,
		"CREATE TABLE bench_seen (consumer TEXT, id TEXT, seen_at INTEGER NOT NULL DEFAULT (unixepoch()), PRIMARY KEY (consumer, id)) WITHOUT ROWID",
		"CREATE INDEX bench_seen_at ON bench_seen (seen_at)",
		"INSERT INTO bench_seen (consumer, id) VALUES (?, ?) ON CONFLICT DO NOTHING")
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

func (d dialect) Inspect(ctx context.Context, db *sqlx.DB, _ sql.IsolationLevel) (store.Server, []store.Finding, error) {
	conn, err := db.Connx(ctx)
	if err != nil {
		return store.Server{}, nil, err
	}
	defer conn.Close() // nothing was written
	var version, file, journal string
	var synchronous int
	for query, dest := range map[string]any{
		"SELECT sqlite_version()": &version,
		"SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'": &file,
		"PRAGMA journal_mode": &journal,
		"PRAGMA synchronous":  &synchronous,
	} {
		if err := conn.GetContext(ctx, dest, query); err != nil {
			return store.Server{}, nil, fmt.Errorf("%s: %w", query, err)
		}
	}
	if file == "" && db.Stats().MaxOpenConnections != 1 {
		if err := d.shared(ctx, db, conn); err != nil {
			return store.Server{}, nil, err
		}
	}
	var findings []store.Finding
	if file != "" && (synchronous == 0 || synchronous == 1 && journal == "wal") {
		findings = append(findings, store.Finding{
			Setting: "synchronous", Value: fmt.Sprintf("%d with journal_mode %s", synchronous, journal),
			Problem: "a message is acked before its writes are on disk: a crash of the machine in the next moments loses both, and the broker has forgotten it",
			Fix:     "open the file with _pragma=synchronous(FULL)",
		})
	}
	return store.Server{Version: version}, findings, nil
}

// shared refuses a database in memory of which each connection has its own:
// while one connection writes, another must not be able to.
func (d dialect) shared(ctx context.Context, db *sqlx.DB, one *sqlx.Conn) error {
	two, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer two.Close() // nothing was written
	if _, err := one.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() { _, _ = one.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	if _, err := two.ExecContext(ctx, "BEGIN IMMEDIATE"); d.Fault(err) == store.FaultBusy {
		return nil
	}
	_, _ = two.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return errors.New(`":memory:" with more than one connection gives each a database of its own: call SetMaxOpenConns(1), or use a file`)
}

package postgres

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

func (dialect) Inspect(ctx context.Context, db *sqlx.DB, _ sql.IsolationLevel) (store.Server, []store.Finding, error) {
	var version, durable, fsync string
	row := db.QueryRowContext(ctx, `SELECT pg_catalog.current_setting('server_version'),
	pg_catalog.current_setting('synchronous_commit'), pg_catalog.current_setting('fsync')`)
	if err := row.Scan(&version, &durable, &fsync); err != nil {
		return store.Server{}, nil, err
	}
	var findings []store.Finding
	if durable == "off" {
		findings = append(findings, store.Finding{
			Setting: "synchronous_commit", Value: durable,
			Problem: "a message is acked before its writes are on disk: a crash of the server in the next moments loses both, and the broker has forgotten it",
			Fix:     "ALTER ROLE … SET synchronous_commit = on for the role of this service",
		})
	}
	if fsync == "off" {
		findings = append(findings, store.Finding{
			Setting: "fsync", Value: fsync,
			Problem: "nothing is safe after a crash of the machine",
			Fix:     "set fsync = on in postgresql.conf",
		})
	}
	return store.Server{Version: version}, findings, nil
}

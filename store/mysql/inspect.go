package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

func (dialect) Inspect(ctx context.Context, db *sqlx.DB, level sql.IsolationLevel) (store.Server, []store.Finding, error) {
	v, err := variables(ctx, db, "version", "max_allowed_packet", "innodb_flush_log_at_trx_commit",
		"log_bin", "sync_binlog", "binlog_format", "tx_isolation", "transaction_isolation")
	if err != nil {
		return store.Server{}, nil, err
	}
	if v["log_bin"] == "ON" && v["binlog_format"] == "STATEMENT" && level == sql.LevelReadCommitted {
		return store.Server{}, nil, errors.New("binlog_format is STATEMENT, with which InnoDB refuses every write at READ COMMITTED (error 1665): " +
			"set binlog_format=ROW (or MIXED) on the server, or give the store WithIsolation(sql.LevelRepeatableRead)")
	}
	server := store.Server{Version: v["version"], Variant: variantMySQL}
	if strings.Contains(v["version"], "MariaDB") {
		server.Variant = variantMariaDB
	}
	if server.MaxStatement, err = strconv.ParseInt(v["max_allowed_packet"], 10, 64); err != nil {
		return store.Server{}, nil, fmt.Errorf("max_allowed_packet is %q: %w", v["max_allowed_packet"], err)
	}
	isolation := v["transaction_isolation"]
	if isolation == "" {
		isolation = v["tx_isolation"]
	}
	for l, name := range levelSQL {
		if strings.ReplaceAll(isolation, "-", " ") == name {
			server.Level = l
		}
	}
	return server, durability(v), nil
}

func durability(v map[string]string) []store.Finding {
	var findings []store.Finding
	if f := v["innodb_flush_log_at_trx_commit"]; f != "1" {
		findings = append(findings, store.Finding{
			Setting: "innodb_flush_log_at_trx_commit", Value: f,
			Problem: "a message is acked before its writes are on disk: a crash in the next second loses both, and the broker has forgotten it",
			Fix:     "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration",
		})
	}
	if v["log_bin"] == "ON" && v["sync_binlog"] != "1" {
		findings = append(findings, store.Finding{
			Setting: "sync_binlog", Value: v["sync_binlog"],
			Problem: "after a crash the binary log may lack commits that were acked, so replicas miss claims and writes",
			Fix:     "SET GLOBAL sync_binlog = 1, and in the server's configuration",
		})
	}
	return findings
}

// variables reads system variables; one that the server does not know is "".
func variables(ctx context.Context, db *sqlx.DB, names ...string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')")
	if err != nil {
		return nil, err
	}
	defer rows.Close() // Err tells
	v := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[name] = value
	}
	return v, rows.Err()
}

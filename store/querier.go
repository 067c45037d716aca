package store

import (
	"context"
	"database/sql"
	"errors"
)

// poolQuerier is the [Querier] over a pool, a connection or a transaction.
type poolQuerier struct{ db handle }

// handle is what a pool, a connection and a transaction have in common.
type handle interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (q poolQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := q.db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q poolQuerier) ExecPrepared(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, err := q.db.PrepareContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer stmt.Close() // the statement's own error counts
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q poolQuerier) QueryRows(ctx context.Context, query string, args, dest []any, row func() error) error {
	rows, err := q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() // Err tells
	targets := nullables(dest)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := row(); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (q poolQuerier) QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	rows, err := q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close() // Err tells
	if !rows.Next() {
		return false, rows.Err()
	}
	if len(dest) == 0 {
		return true, drain(rows)
	}
	if err := rows.Scan(nullables(dest)...); err != nil {
		return false, err
	}
	return true, drain(rows)
}

// drain reads to the end of the answer, where an error may still hide.
func drain(rows *sql.Rows) error {
	for rows.Next() { // only the end counts
	}
	return rows.Err()
}

// nullables make NULL leave a destination as it is.
func nullables(dest []any) []any {
	targets := make([]any, len(dest))
	for i, d := range dest {
		targets[i] = &keep{d}
	}
	return targets
}

type keep struct{ dest any }

func (k *keep) Scan(v any) error {
	if v == nil {
		return nil
	}
	switch d := k.dest.(type) {
	case *int64:
		var n sql.NullInt64
		err := n.Scan(v)
		*d = n.Int64
		return err
	case *bool:
		var n sql.NullBool
		err := n.Scan(v)
		*d = n.Bool
		return err
	case *string:
		var n sql.NullString
		err := n.Scan(v)
		*d = n.String
		return err
	case *[]byte:
		var n sql.Null[[]byte]
		err := n.Scan(v)
		*d = append([]byte(nil), n.V...)
		return err
	default:
		return errors.New("store: unexpected destination")
	}
}

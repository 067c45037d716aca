package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
)

// Exec runs a statement of the engine's own and returns the rows affected.
// Arguments are []byte, string, int64, or nil.
func (c *Conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := c.exec(ctx, query, named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// ExecPrepared is Exec, but always prepares: a driver that writes arguments out
// into the text otherwise cannot make it larger than the server takes.
func (c *Conn) ExecPrepared(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := c.execPrepared(ctx, query, named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c *Conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	stop := c.watch(ctx)
	if e, ok := c.raw.(driver.ExecerContext); ok {
		result, err := e.ExecContext(ctx, query, args)
		if !errors.Is(err, driver.ErrSkip) {
			stop()
			return result, err
		}
	}
	stop()
	return c.execPrepared(ctx, query, args)
}

func (c *Conn) execPrepared(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.watch(ctx)()
	inner, err := prepare(ctx, c.raw, query)
	if err != nil {
		return nil, err
	}
	defer inner.Close() // the statement's own error counts
	return execStmt(ctx, inner, args)
}

// QueryRow runs a query of the engine's own, stores the columns of its first
// row in dest (*int64, *bool, *string, *[]byte), and reports whether there was
// a row.
func (c *Conn) QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	answer, err := c.Ask(ctx, query, args, dest...)
	return answer == AnsweredRow, err
}

// Answer says what came back for a query.
type Answer int

const (
	// AnsweredNothing: there was no result set, as for a statement that is no
	// query.
	AnsweredNothing Answer = iota
	// AnsweredEmpty: there was a result set without rows.
	AnsweredEmpty
	// AnsweredRow: there was at least one row.
	AnsweredRow
)

// Ask is QueryRow that tells no result set from an empty one: a compound
// statement may end with or without its query. Beside an error it is what came
// before that.
func (c *Conn) Ask(ctx context.Context, query string, args []any, dest ...any) (answer Answer, err error) {
	err = c.query(ctx, query, args, func(r driver.Rows) error {
		if len(r.Columns()) > 0 {
			answer = AnsweredEmpty
		}
		return each(r, dest, func() (bool, error) {
			answer = AnsweredRow
			return false, nil
		})
	})
	return answer, err
}

// QueryRows runs a query of the engine's own, stores each row's columns in dest
// as QueryRow does, and calls row for it.
func (c *Conn) QueryRows(ctx context.Context, query string, args, dest []any, row func() error) error {
	return c.query(ctx, query, args, func(r driver.Rows) error {
		return each(r, dest, func() (bool, error) { return true, row() })
	})
}

// query runs a query and closes what it returned behind read.
func (c *Conn) query(ctx context.Context, query string, args []any, read func(driver.Rows) error) error {
	defer c.watch(ctx)()
	if q, ok := c.raw.(driver.QueryerContext); ok {
		r, err := q.QueryContext(ctx, query, named(args))
		if !errors.Is(err, driver.ErrSkip) {
			return reading(r, err, read)
		}
	}
	inner, err := prepare(ctx, c.raw, query)
	if err != nil {
		return err
	}
	defer inner.Close() // the statement's own error counts
	r, err := queryStmt(ctx, inner, named(args))
	return reading(r, err, read)
}

func reading(r driver.Rows, queryErr error, read func(driver.Rows) error) (err error) {
	if queryErr != nil {
		return queryErr
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return read(r)
}

func named(args []any) []driver.NamedValue {
	if len(args) == 0 {
		return nil
	}
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values
}

package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
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

func (c *Conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.watch(ctx)()
	if e, ok := c.raw.(driver.ExecerContext); ok {
		result, err := e.ExecContext(ctx, query, args)
		if !errors.Is(err, driver.ErrSkip) {
			return result, err
		}
	}
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
	defer c.watch(ctx)()
	if q, ok := c.raw.(driver.QueryerContext); ok {
		r, err := q.QueryContext(ctx, query, named(args))
		if !errors.Is(err, driver.ErrSkip) {
			return first(r, err, dest)
		}
	}
	inner, err := prepare(ctx, c.raw, query)
	if err != nil {
		return false, err
	}
	defer inner.Close() // the statement's own error counts
	r, err := queryStmt(ctx, inner, named(args))
	return first(r, err, dest)
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

// first reads the first row and the rest of the answer, where an error may
// still hide.
func first(r driver.Rows, queryErr error, dest []any) (found bool, err error) {
	if queryErr != nil {
		return false, queryErr
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	row := make([]driver.Value, len(r.Columns()))
	for {
		switch err := r.Next(row); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return false, err
		case found:
			continue
		}
		found = true
		if len(row) < len(dest) {
			return false, fmt.Errorf("%d columns for %d values", len(row), len(dest))
		}
		for i, d := range dest {
			if err := assign(d, row[i]); err != nil {
				return false, fmt.Errorf("column %d: %w", i+1, err)
			}
		}
	}
}

// assign stores v in dest. NULL leaves dest as it is.
func assign(dest any, v driver.Value) error {
	if v == nil {
		return nil
	}
	switch d := dest.(type) {
	case *[]byte:
		switch v := v.(type) {
		case []byte:
			*d = append([]byte(nil), v...)
			return nil
		case string:
			*d = []byte(v)
			return nil
		}
	case *string:
		switch v := v.(type) {
		case []byte:
			*d = string(v)
			return nil
		case string:
			*d = v
			return nil
		}
	case *int64:
		return assignInt(d, v)
	case *bool:
		if b, ok := v.(bool); ok {
			*d = b
			return nil
		}
		var n int64
		err := assignInt(&n, v)
		*d = n != 0
		return err
	}
	return fmt.Errorf("cannot store %T in %T", v, dest)
}

func assignInt(d *int64, v driver.Value) (err error) {
	switch v := v.(type) {
	case int64:
		*d = v
	case []byte:
		*d, err = strconv.ParseInt(string(v), 10, 64)
	case string:
		*d, err = strconv.ParseInt(v, 10, 64)
	default:
		err = fmt.Errorf("cannot read %T as a number", v)
	}
	return err
}

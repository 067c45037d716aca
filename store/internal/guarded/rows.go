package guarded

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
)

// rows keeps its connection busy until it is closed, and dooms for what fails
// on the way. It offers every optional interface of driver.Rows and answers as
// database/sql itself does where the application's driver lacks one.
type rows struct {
	inner  driver.Rows
	c      *Conn
	s      statement
	ctx    context.Context
	stop   func() // see watch
	failed error
	read   bool // to the end
	closed bool
}

var (
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

// opened wraps the Rows of a statement. The caller holds use.
func (c *Conn) opened(ctx context.Context, s statement, inner driver.Rows) *rows {
	r := &rows{inner: inner, c: c, s: s, ctx: ctx, stop: c.watch(ctx)}
	if !c.plain {
		c.mu.Lock()
		c.open = r
		c.mu.Unlock()
	}
	return r
}

// Columns names the columns.
func (r *rows) Columns() []string {
	return live(r, func(inner driver.Rows) []string { return inner.Columns() })
}

// Next reads one row.
func (r *rows) Next(dest []driver.Value) error {
	return r.step(func(inner driver.Rows) error { return inner.Next(dest) })
}

// Close ends the statement.
func (r *rows) Close() error {
	r.c.use.Lock()
	defer r.c.use.Unlock()
	return r.end()
}

// end closes the driver's Rows, once: it is called by database/sql, or when the
// transaction ends and the handler left it open. The caller holds use.
func (r *rows) end() error {
	if r.closed {
		return nil
	}
	r.closed = true
	returned := false
	defer func() {
		r.stop()
		if !returned {
			r.failed = errUnfinished
			r.c.broken()
		}
		r.c.leave(r.s, because(r.ctx, r.failed))
	}()
	err := r.inner.Close()
	returned = true
	if r.failed == nil {
		r.failed = err
	}
	if r.failed == nil && !r.read {
		r.failed = r.ctx.Err() // it ended before the rows did, and closed them
	}
	return err
}

// step reads on.
func (r *rows) step(read func(driver.Rows) error) error {
	r.c.use.Lock()
	defer r.c.use.Unlock()
	if r.closed {
		return sql.ErrTxDone
	}
	returned := false
	defer func() {
		if !returned {
			r.failed = errUnfinished
			r.c.broken()
		}
	}()
	err := read(r.inner)
	returned = true
	switch {
	case err == io.EOF: //nolint:errorlint // as database/sql asks: one that is wrapped is a lost connection
		next, ok := r.inner.(driver.RowsNextResultSet)
		r.read = !ok || !next.HasNextResultSet()
	case err != nil && r.failed == nil:
		r.failed = err
	}
	return err
}

// HasNextResultSet reports whether NextResultSet would find one.
func (r *rows) HasNextResultSet() bool {
	return live(r, func(inner driver.Rows) bool {
		next, ok := inner.(driver.RowsNextResultSet)
		return ok && next.HasNextResultSet()
	})
}

// NextResultSet goes on to the next result set.
func (r *rows) NextResultSet() error {
	return r.step(func(inner driver.Rows) error {
		if next, ok := inner.(driver.RowsNextResultSet); ok {
			return next.NextResultSet()
		}
		return io.EOF
	})
}

// live asks the driver's Rows, unless it is closed: its connection may be
// another attempt's then.
func live[T any](r *rows, ask func(driver.Rows) T) T {
	r.c.use.Lock()
	defer r.c.use.Unlock()
	if r.closed {
		var none T
		return none
	}
	return ask(r.inner)
}

// ColumnTypeScanType is the driver's.
func (r *rows) ColumnTypeScanType(index int) reflect.Type {
	scanned := reflect.TypeFor[any]()
	live(r, func(inner driver.Rows) (none struct{}) {
		if t, ok := inner.(driver.RowsColumnTypeScanType); ok {
			scanned = t.ColumnTypeScanType(index) // it may be nil
		}
		return none
	})
	return scanned
}

// ColumnTypeDatabaseTypeName is the driver's.
func (r *rows) ColumnTypeDatabaseTypeName(index int) string {
	return live(r, func(inner driver.Rows) string {
		if t, ok := inner.(driver.RowsColumnTypeDatabaseTypeName); ok {
			return t.ColumnTypeDatabaseTypeName(index)
		}
		return ""
	})
}

// ColumnTypeLength is the driver's.
func (r *rows) ColumnTypeLength(index int) (length int64, ok bool) {
	live(r, func(inner driver.Rows) (none struct{}) {
		if t, has := inner.(driver.RowsColumnTypeLength); has {
			length, ok = t.ColumnTypeLength(index)
		}
		return none
	})
	return length, ok
}

// ColumnTypeNullable is the driver's.
func (r *rows) ColumnTypeNullable(index int) (nullable, ok bool) {
	live(r, func(inner driver.Rows) (none struct{}) {
		if t, has := inner.(driver.RowsColumnTypeNullable); has {
			nullable, ok = t.ColumnTypeNullable(index)
		}
		return none
	})
	return nullable, ok
}

// ColumnTypePrecisionScale is the driver's.
func (r *rows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	live(r, func(inner driver.Rows) (none struct{}) {
		if t, has := inner.(driver.RowsColumnTypePrecisionScale); has {
			precision, scale, ok = t.ColumnTypePrecisionScale(index)
		}
		return none
	})
	return precision, scale, ok
}

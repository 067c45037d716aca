package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// rows keeps its connection busy until it is closed, and dooms for what fails
// on the way. It offers every optional interface of driver.Rows and answers as
// database/sql itself does where the application's driver lacks one.
type rows struct {
	driver.Rows
	c      *Conn
	s      statement
	ctx    context.Context
	failed error
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

// Next reads one row.
func (r *rows) Next(dest []driver.Value) error { return r.note(r.Rows.Next(dest)) }

// Close ends the statement.
func (r *rows) Close() error {
	err := r.Rows.Close()
	if r.closed {
		return err
	}
	r.closed = true
	if r.failed == nil {
		r.failed = err
	}
	r.c.leave(r.s, because(r.ctx, r.failed))
	return err
}

func (r *rows) note(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && r.failed == nil {
		r.failed = err
	}
	return err
}

func (r *rows) HasNextResultSet() bool {
	next, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && next.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	next, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	return r.note(next.NextResultSet())
}

func (r *rows) ColumnTypeScanType(index int) reflect.Type {
	if t, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(index int) string {
	if t, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}

func (r *rows) ColumnTypeLength(index int) (int64, bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(index)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(index int) (nullable, known bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return t.ColumnTypeNullable(index)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return t.ColumnTypePrecisionScale(index)
	}
	return 0, 0, false
}

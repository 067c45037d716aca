package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// stmt is a statement that the handler prepared on its transaction.
type stmt struct {
	inner driver.Stmt
	c     *Conn
	query string
	s     statement
}

var (
	_ driver.Stmt              = (*stmt)(nil)
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = (*stmt)(nil)
)

// NumInput leaves the count of arguments to arrive, because database/sql would
// report a wrong one without telling us, and a statement that did not run must
// doom.
func (s *stmt) NumInput() int { return -1 }

// Close frees the statement on the server. It is the one thing that is sent
// after a failure: it touches no data. While another statement's Rows is open
// it cannot be sent; the connection then keeps it until it is closed itself.
func (s *stmt) Close() error {
	s.c.mu.Lock()
	busy := s.c.busy
	s.c.mu.Unlock()
	if busy {
		return nil
	}
	return s.inner.Close()
}

// ExecContext runs the statement.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.enter(args); err != nil {
		return nil, err
	}
	result, err := s.exec(ctx, args)
	s.c.leave(s.s, because(ctx, err))
	return result, err
}

func (s *stmt) exec(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := s.inner.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.inner.Exec(values) //nolint:staticcheck // for drivers without the newer form
}

// QueryContext runs the statement; its Rows keep the connection busy.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.enter(args); err != nil {
		return nil, err
	}
	r, err := s.queryRows(ctx, args)
	if err != nil {
		s.c.leave(s.s, because(ctx, err))
		return nil, err
	}
	return &rows{Rows: r, c: s.c, s: s.s, ctx: ctx}, nil
}

func (s *stmt) queryRows(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := s.inner.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.inner.Query(values) //nolint:staticcheck // for drivers without the newer form
}

func (s *stmt) enter(args []driver.NamedValue) error {
	if want := s.inner.NumInput(); want >= 0 && want != len(args) {
		return s.c.fail(fmt.Errorf("the statement expects %d arguments, got %d", want, len(args)), false)
	}
	if _, err := s.c.judge(s.query, args); err != nil {
		return s.c.fail(err, true)
	}
	return s.c.enter(s.s)
}

// Exec is the old form of ExecContext.
func (s *stmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("guarded: use ExecContext")
}

// Query is the old form of QueryContext.
func (s *stmt) Query([]driver.Value) (driver.Rows, error) {
	return nil, errors.New("guarded: use QueryContext")
}

// CheckNamedValue converts an argument as the application's driver would for
// this statement.
func (s *stmt) CheckNamedValue(nv *driver.NamedValue) error {
	if conv, ok := s.inner.(driver.ColumnConverter); ok { //nolint:staticcheck // older drivers
		if _, ok := s.inner.(driver.NamedValueChecker); !ok {
			return s.convert(conv.ColumnConverter(nv.Ordinal-1), nv)
		}
	}
	return s.c.check(nv, s.inner, s.c.raw)
}

func (s *stmt) convert(conv driver.ValueConverter, nv *driver.NamedValue) error {
	if valuer, ok := nv.Value.(driver.Valuer); ok {
		v, err := driver.DefaultParameterConverter.ConvertValue(valuer)
		if err != nil {
			return s.c.fail(err, false)
		}
		nv.Value = v
	}
	v, err := conv.ConvertValue(nv.Value)
	if err != nil {
		return s.c.fail(err, false)
	}
	nv.Value = v
	return nil
}

// plainValues is for drivers that know neither names nor contexts.
func plainValues(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("the driver does not support named arguments")
		}
		values[i] = a.Value
	}
	return values, nil
}

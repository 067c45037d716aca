package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
)

// stmt is a statement that the handler prepared on its transaction.
type stmt struct {
	inner   driver.Stmt
	c       *Conn
	query   string
	s       statement
	streams bool // see copyRow
	closed  bool // by database/sql
}

var (
	_ driver.Stmt              = (*stmt)(nil)
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = (*stmt)(nil)
)

// keep remembers s until it is closed. The caller holds use.
func (c *Conn) keep(s *stmt) *stmt {
	if c.plain {
		return s
	}
	s.streams = s.s.copies && s.inner.NumInput() < 0
	if !s.streams {
		c.leave(statement{}, nil) // a prepared ROLLBACK TO forgives when it runs
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prepared = append(c.prepared, s)
	if s.streams {
		c.copying = s
	}
	return s
}

// NumInput leaves the count of arguments to enter, because database/sql would
// report a wrong one without telling us, and a statement that did not run must
// doom.
func (s *stmt) NumInput() int { return -1 }

// Close frees the statement on the server. It is the one thing that is sent
// after a failure: it touches no data. While another statement's Rows is open
// it has to wait for that.
func (s *stmt) Close() error {
	c := s.c
	c.mu.Lock()
	if s.closed || c.ended && !c.plain { // the end closed it
		c.mu.Unlock()
		return nil
	}
	s.closed = true
	copying := c.copying == s
	if c.busy && !copying {
		c.late = append(c.late, s)
		c.forget(s)
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()

	c.use.Lock()
	defer c.use.Unlock()
	if c.over() {
		return nil
	}
	if copying {
		return s.endCopy()
	}
	c.mu.Lock()
	c.forget(s)
	c.mu.Unlock()
	return s.inner.Close()
}

// forget takes s from those that the end closes. The caller holds mu.
func (c *Conn) forget(s *stmt) {
	if i := slices.Index(c.prepared, s); i >= 0 {
		c.prepared = slices.Delete(c.prepared, i, i+1)
	}
}

// ExecContext runs the statement.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	if s.streams {
		return s.copyRow(ctx, args)
	}
	err = s.drive(ctx, args, func() error {
		var err error
		result, err = execStmt(ctx, s.inner, args)
		s.c.leave(s.s, s.c.explain(ctx, err, s.query, args))
		return err
	})
	return result, err
}

// QueryContext runs the statement; its Rows keep the connection busy.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (found driver.Rows, err error) {
	err = s.drive(ctx, args, func() error {
		r, err := queryStmt(ctx, s.inner, args)
		if err != nil {
			s.c.leave(s.s, s.c.explain(ctx, err, s.query, args))
			return err
		}
		found = s.c.opened(ctx, s.s, r)
		return nil
	})
	return found, err
}

func (s *stmt) drive(ctx context.Context, args []driver.NamedValue, call func() error) error {
	if want := s.inner.NumInput(); want >= 0 && want != len(args) {
		return s.c.fail(fmt.Errorf("sql: expected %d arguments, got %d", want, len(args)), false)
	}
	if err := s.c.weigh(s.query, args); err != nil {
		return err
	}
	return s.c.drive(ctx, s.s, call)
}

// Exec is the old form of ExecContext.
func (s *stmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("guarded: use ExecContext")
}

// Query is the old form of QueryContext.
func (s *stmt) Query([]driver.Value) (driver.Rows, error) {
	return nil, errors.New("guarded: use QueryContext")
}

// CheckNamedValue converts an argument of this statement.
func (s *stmt) CheckNamedValue(nv *driver.NamedValue) error { return s.c.convert(nv, s.inner) }

func execStmt(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := s.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Exec(values) //nolint:staticcheck // for drivers without the newer form
}

func queryStmt(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := s.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Query(values) //nolint:staticcheck // for drivers without the newer form
}

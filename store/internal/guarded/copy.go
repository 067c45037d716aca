package guarded

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// copyRow runs a prepared COPY that takes a row with each call, and ends with a
// call without arguments (lib/pq's way). Between its preparation and its end
// the connection is busy: anything else that is sent would be taken for data.
func (s *stmt) copyRow(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	c := s.c
	c.use.Lock()
	defer c.use.Unlock()
	if c.over() {
		return nil, sql.ErrTxDone
	}
	if doom := c.Doom(); doom != nil {
		return nil, doom
	}
	defer c.watch(ctx)()
	result, err := execStmt(ctx, s.inner, args)
	switch {
	case len(args) == 0:
		c.leave(statement{}, because(ctx, err))
	case err != nil:
		_ = c.fail(because(ctx, err), false)
	}
	return result, err
}

// endCopy ends a COPY, so that the connection takes statements again. The
// caller holds use.
func (s *stmt) endCopy() error {
	err := s.inner.Close()
	s.c.mu.Lock()
	s.c.forget(s)
	s.c.mu.Unlock()
	s.c.leave(statement{}, err)
	return err
}

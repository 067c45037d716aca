package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// handlerConn is the connection that database/sql sees under the handler's
// transaction. Each call passes the gate and goes to the application's driver.
type handlerConn struct{ c *Conn }

var (
	_ driver.Conn               = (*handlerConn)(nil)
	_ driver.ConnBeginTx        = (*handlerConn)(nil)
	_ driver.ConnPrepareContext = (*handlerConn)(nil)
	_ driver.ExecerContext      = (*handlerConn)(nil)
	_ driver.QueryerContext     = (*handlerConn)(nil)
	_ driver.NamedValueChecker  = (*handlerConn)(nil)
	_ driver.Pinger             = (*handlerConn)(nil)
)

// BeginTx sends nothing: the transaction is open already. It refuses everyone
// but the engine.
func (h *handlerConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if c, ok := ctx.Value(borrowedKey{}).(*Conn); !ok || c != h.c {
		return nil, fmt.Errorf("%w: this handle only prepares statements; the transaction is the one in the handler's context", ErrForbidden)
	}
	return &handlerTx{h.c}, nil
}

// Begin is the old form of BeginTx.
func (h *handlerConn) Begin() (driver.Tx, error) {
	return h.BeginTx(context.Background(), driver.TxOptions{})
}

// Close tells that database/sql has let go. A connection that the handle
// borrowed for itself goes back now; an attempt's goes back with the attempt.
func (h *handlerConn) Close() error {
	if h.c.plain {
		h.c.Release()
	} else {
		close(h.c.detached)
	}
	return nil
}

// Ping is a statement as any other: it must not meet one that is under way.
func (h *handlerConn) Ping(ctx context.Context) error {
	pinger, ok := h.c.raw.(driver.Pinger)
	if !ok {
		return nil
	}
	if err := h.c.enter(statement{}); err != nil {
		return err
	}
	err := pinger.Ping(ctx)
	h.c.leave(statement{}, err)
	return err
}

// ExecContext runs one statement of the handler.
func (h *handlerConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	execer, ok := h.c.raw.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	s, err := h.c.judge(query, args)
	if err != nil {
		return nil, h.c.fail(err, true)
	}
	if err := h.c.enter(s); err != nil {
		return nil, err
	}
	result, err := execer.ExecContext(ctx, query, args)
	h.c.leave(s, because(ctx, err))
	return result, err
}

// QueryContext runs one statement whose Rows keep the connection busy until
// they are closed.
func (h *handlerConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	queryer, ok := h.c.raw.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	s, err := h.c.judge(query, args)
	if err != nil {
		return nil, h.c.fail(err, true)
	}
	if err := h.c.enter(s); err != nil {
		return nil, err
	}
	r, err := queryer.QueryContext(ctx, query, args)
	if err != nil {
		h.c.leave(s, because(ctx, err))
		return nil, err
	}
	return &rows{Rows: r, c: h.c, s: s, ctx: ctx}, nil
}

// PrepareContext prepares on the application's connection.
func (h *handlerConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := h.c.judge(query, nil)
	if err != nil {
		return nil, h.c.fail(err, true)
	}
	if err := h.c.enter(s); err != nil {
		return nil, err
	}
	inner, err := prepare(ctx, h.c.raw, query)
	if err != nil {
		h.c.leave(statement{}, because(ctx, err))
		return nil, err
	}
	h.c.leave(statement{}, nil) // a prepared ROLLBACK TO forgives when it runs
	return &stmt{inner: inner, c: h.c, query: query, s: s}, nil
}

// Prepare is the old form of PrepareContext.
func (h *handlerConn) Prepare(query string) (driver.Stmt, error) {
	return h.PrepareContext(context.Background(), query)
}

// CheckNamedValue converts an argument as the application's driver would, so
// that arguments of every type behave as on its pool. One that cannot be
// converted is a failed statement.
func (h *handlerConn) CheckNamedValue(nv *driver.NamedValue) error {
	return h.c.check(nv, h.c.raw)
}

// check asks each of checkers in turn, then falls back to database/sql's rule.
func (c *Conn) check(nv *driver.NamedValue, checkers ...any) error {
	for _, k := range checkers {
		if checker, ok := k.(driver.NamedValueChecker); ok {
			err := checker.CheckNamedValue(nv)
			if errors.Is(err, driver.ErrSkip) {
				continue
			}
			if err != nil && !errors.Is(err, driver.ErrRemoveArgument) {
				return c.fail(err, false)
			}
			return err
		}
	}
	value, err := driver.DefaultParameterConverter.ConvertValue(nv.Value)
	if err != nil {
		return c.fail(err, false)
	}
	nv.Value = value
	return nil
}

func prepare(ctx context.Context, dc driver.Conn, query string) (driver.Stmt, error) {
	if p, ok := dc.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	return dc.Prepare(query)
}

// handlerTx is the driver's side of the handler's *sql.Tx.
type handlerTx struct{ c *Conn }

func (t *handlerTx) Commit() error   { return t.c.finish(true) }
func (t *handlerTx) Rollback() error { return t.c.finish(false) }

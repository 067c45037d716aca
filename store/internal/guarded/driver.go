package guarded

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// handlerConn is the connection that database/sql sees under the handler's
// transaction. Each call passes the gate and goes to the application's driver.
type handlerConn struct{ c *Conn }

// execs and queries are what a driver connection may do without preparing
// first. database/sql takes other ways, and converts arguments elsewhere, where
// one is missing; so the wrapper has what the application's connection has.
type (
	execs   struct{ *handlerConn }
	queries struct{ *handlerConn }
	both    struct {
		*handlerConn
		execs
		queries
	}
)

var (
	_ driver.Conn               = (*handlerConn)(nil)
	_ driver.ConnBeginTx        = (*handlerConn)(nil)
	_ driver.ConnPrepareContext = (*handlerConn)(nil)
	_ driver.NamedValueChecker  = (*handlerConn)(nil)
	_ driver.Pinger             = (*handlerConn)(nil)
	_ driver.ExecerContext      = execs{}
	_ driver.QueryerContext     = queries{}
)

// wrap returns what the private pool gets for c.
func (c *Conn) wrap() driver.Conn {
	h := &handlerConn{c}
	canExec, canQuery := is[driver.ExecerContext](c.raw), is[driver.QueryerContext](c.raw)
	canExec = canExec || is[driver.Execer](c.raw)    //nolint:staticcheck // older drivers
	canQuery = canQuery || is[driver.Queryer](c.raw) //nolint:staticcheck // older drivers
	switch {
	case canExec && canQuery:
		return both{h, execs{h}, queries{h}}
	case canExec:
		return execs{h}
	case canQuery:
		return queries{h}
	default:
		return h
	}
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

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
	}
	return nil
}

// Ping is a statement as any other: it must not meet one that is under way.
func (h *handlerConn) Ping(ctx context.Context) error {
	pinger, ok := h.c.raw.(driver.Pinger)
	if !ok {
		return nil
	}
	return h.c.drive(ctx, statement{}, func() error {
		err := pinger.Ping(ctx)
		h.c.leave(statement{}, because(ctx, err))
		return err
	})
}

// ExecContext runs one statement of the handler.
func (e execs) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	c := e.c
	s, err := c.judge(query, args)
	if err != nil {
		return nil, err
	}
	err = c.drive(ctx, s, func() error {
		var err error
		result, err = execConn(ctx, c.raw, query, args)
		if err == driver.ErrSkip { //nolint:errorlint // as database/sql asks, which then prepares it
			c.leave(statement{}, nil)
		} else {
			c.leave(s, c.explain(ctx, err, query, args))
		}
		return err
	})
	return result, err
}

// QueryContext runs one statement whose Rows keep the connection busy until
// they are closed.
func (q queries) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (found driver.Rows, err error) {
	c := q.c
	s, err := c.judge(query, args)
	if err != nil {
		return nil, err
	}
	err = c.drive(ctx, s, func() error {
		r, err := queryConn(ctx, c.raw, query, args)
		switch {
		case err == nil:
			found = c.opened(ctx, s, r)
		case err == driver.ErrSkip: //nolint:errorlint // as database/sql asks, which then prepares it
			c.leave(statement{}, nil)
		default:
			c.leave(s, c.explain(ctx, err, query, args))
		}
		return err
	})
	return found, err
}

// PrepareContext prepares on the application's connection.
func (h *handlerConn) PrepareContext(ctx context.Context, query string) (prepared driver.Stmt, err error) {
	c := h.c
	s, err := c.judge(query, nil)
	if err != nil {
		return nil, err
	}
	err = c.drive(ctx, s, func() error {
		inner, err := prepare(ctx, c.raw, query)
		if err != nil {
			c.leave(statement{}, because(ctx, err))
			return err
		}
		prepared = c.keep(&stmt{inner: inner, c: c, query: query, s: s})
		return nil
	})
	return prepared, err
}

// Prepare is the old form of PrepareContext.
func (h *handlerConn) Prepare(query string) (driver.Stmt, error) {
	return h.PrepareContext(context.Background(), query)
}

// CheckNamedValue converts an argument of a statement that is not prepared.
func (h *handlerConn) CheckNamedValue(nv *driver.NamedValue) error {
	return h.c.convert(nv, nil)
}

// prepare is database/sql's.
func prepare(ctx context.Context, dc driver.Conn, query string) (driver.Stmt, error) {
	if p, ok := dc.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	s, err := dc.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = s.Close()
		return nil, ctx.Err()
	}
	return s, err
}

func execConn(ctx context.Context, dc driver.Conn, query string, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := dc.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	e, ok := dc.(driver.Execer) //nolint:staticcheck // older drivers
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.Exec(query, values)
}

func queryConn(ctx context.Context, dc driver.Conn, query string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := dc.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	q, ok := dc.(driver.Queryer) //nolint:staticcheck // older drivers
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return q.Query(query, values)
}

// handlerTx is the driver's side of the handler's *sql.Tx. The engine ends the
// transaction past it, so what comes here is the handler's own doing, or
// database/sql cleaning up.
type handlerTx struct{ c *Conn }

func (t *handlerTx) Commit() error   { return t.c.handlerEnds(true) }
func (t *handlerTx) Rollback() error { return t.c.handlerEnds(false) }

package storetest

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"
)

// Stub lies between a pool and a real driver: it sends another statement in
// the place of one, or changes what the driver answered. It shows what no
// server here does: Galera's refusal of COMMIT, a proxy's own errors, an error
// text in another language. It is safe for concurrent use.
//
// A connection behind a stub is not the driver's own, so the engine takes the
// path of an instrumented pool.
type Stub struct {
	mu   sync.Mutex
	lies []*Lie
}

// Lie is what a [Stub] does with the statements that it is about.
type Lie struct {
	// About is part of the statement's text, whatever the case; but "BEGIN",
	// "COMMIT" and "ROLLBACK" are all of it, or a transaction of the driver's
	// own.
	About string
	// Instead is sent in its place, without arguments; empty: it is sent
	// itself. For a COMMIT of the driver's own only "ROLLBACK" will do.
	Instead string
	// Answer changes the error of the answer, which may be nil. Nil: as it is.
	Answer func(error) error
	// After is how many such statements are spared first, Times to how many it
	// happens then; 0: to all.
	After, Times int

	seen, told int
}

// Tell adds a lie.
func (s *Stub) Tell(l Lie) *Lie {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lies = append(s.lies, &l)
	return &l
}

// Stop tells no more lies.
func (s *Stub) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lies = nil
}

// Told says how often a lie was told.
func (s *Stub) Told(l *Lie) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.told
}

// Failing is an Answer that replaces every answer.
func Failing(err error) func(error) error {
	return func(error) error { return err }
}

// about returns what happens to a statement.
func (s *Stub) about(query string) (instead string, answer func(error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lies {
		if !l.isAbout(query) {
			continue
		}
		if l.seen++; l.seen <= l.After || l.Times > 0 && l.told >= l.Times {
			continue
		}
		l.told++
		if l.Answer == nil {
			return l.Instead, same
		}
		return l.Instead, l.Answer
	}
	return "", same
}

func (l *Lie) isAbout(query string) bool {
	switch l.About {
	case "BEGIN", "COMMIT", "ROLLBACK":
		return strings.EqualFold(query, l.About)
	}
	return strings.Contains(strings.ToLower(query), strings.ToLower(l.About))
}

func same(err error) error { return err }

func (s *Stub) wrap(c driver.Connector) driver.Connector { return &stubConnector{c, s} }

type stubConnector struct {
	inner driver.Connector
	stub  *Stub
}

func (c *stubConnector) Driver() driver.Driver { return c.inner.Driver() }

func (c *stubConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &stubConn{conn, c.stub}, nil
}

// stubConn hides what the drivers here do not have in common.
type stubConn struct {
	driver.Conn
	stub *Stub
}

func (c *stubConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	instead, answer := c.stub.about(query)
	if instead != "" {
		query, args = instead, nil
	}
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	result, err := e.ExecContext(ctx, query, args)
	if err == driver.ErrSkip { //nolint:errorlint // as database/sql asks
		return nil, err
	}
	return result, answer(err)
}

func (c *stubConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	instead, answer := c.stub.about(query)
	if instead != "" {
		query, args = instead, nil
	}
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	rows, err := q.QueryContext(ctx, query, args)
	if err == driver.ErrSkip { //nolint:errorlint // as database/sql asks
		return nil, err
	}
	changed := answer(err)
	if err == nil && changed != nil {
		_ = rows.Close() // the lie counts
		return nil, changed
	}
	return rows, changed
}

func (c *stubConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	return c.Prepare(query)
}

func (c *stubConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	_, answer := c.stub.about("BEGIN")
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	if err = answer(err); err != nil {
		return nil, err
	}
	return &stubTx{tx, c.stub}, nil
}

func (c *stubConn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *stubConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *stubConn) IsValid() bool {
	if v, ok := c.Conn.(driver.Validator); ok {
		return v.IsValid()
	}
	return true
}

func (c *stubConn) CheckNamedValue(nv *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(nv)
	}
	return driver.ErrSkip
}

type stubTx struct {
	inner driver.Tx
	stub  *Stub
}

func (t *stubTx) Commit() error {
	instead, answer := t.stub.about("COMMIT")
	if strings.EqualFold(instead, "ROLLBACK") {
		return answer(t.inner.Rollback())
	}
	return answer(t.inner.Commit())
}

func (t *stubTx) Rollback() error {
	_, answer := t.stub.about("ROLLBACK")
	return answer(t.inner.Rollback())
}

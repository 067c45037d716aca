package guarded_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// fake is a driver that records what reaches it, and does what a test says.
type fake struct {
	kind     string // of the connections, see fakeConn.as
	stmtKind string // of the statements, see fakeStmt.as
	numInput int    // of every statement
	rows     int    // of every query

	// do answers a statement, by its text. Nil: it succeeds, with three rows.
	do func(call) error
	// next answers Rows.Next, column and row from 1. Nil: three rows.
	next func(query string, row int) error

	dead   bool          // the driver gave its connections up
	gone   chan struct{} // closed with the connection
	cutOff bool          // a connection may have been closed twice

	mu     sync.Mutex
	log    []string
	got    [][]driver.NamedValue
	opened int
	closed int
	inside int // calls in the driver now
	most   int // ... at once
}

// call is one statement as it reached the driver.
type call struct {
	ctx   context.Context //nolint:containedctx // the call's
	verb  string          // exec, query, prepare, close
	query string
	args  []driver.NamedValue
}

func (f *fake) enter(verb, query string, args []driver.NamedValue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, verb+" "+query)
	f.got = append(f.got, slices.Clone(args))
	f.inside++
	f.most = max(f.most, f.inside)
}

func (f *fake) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside--
}

func (f *fake) run(ctx context.Context, verb, query string, args []driver.NamedValue) error {
	f.enter(verb, query, args)
	defer f.leave()
	if f.do != nil {
		return f.do(call{ctx, verb, query, args})
	}
	return nil
}

// sent lists what reached the driver, and forgets it.
func (f *fake) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log, f.got = nil, nil
	return log
}

func (f *fake) arguments() [][]driver.NamedValue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got
}

func (f *fake) counts() (opened, closed, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened, f.closed, f.most
}

// Connect is driver.Connector's.
func (f *fake) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	return (&fakeConn{f: f}).as(f.kind), nil
}

func (f *fake) Driver() driver.Driver            { return f }
func (f *fake) Open(string) (driver.Conn, error) { return nil, errors.New("unused") }

type fakeConn struct{ f *fake }

func (c *fakeConn) Prepare(query string) (driver.Stmt, error) {
	return c.prepare(context.Background(), query)
}

func (c *fakeConn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.f.run(ctx, "prepare", query, nil); err != nil {
		return nil, err
	}
	return (&fakeStmt{f: c.f, query: query}).as(c.f.stmtKind), nil
}

func (c *fakeConn) Close() error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.closed++; c.f.gone != nil && c.f.closed == 1 {
		close(c.f.gone)
	}
	return nil
}

func (c *fakeConn) Begin() (driver.Tx, error) {
	return fakeTx{c.f}, c.f.run(context.Background(), "exec", "begin", nil)
}

func (c *fakeConn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.f.kind == "skips" && len(args) > 0 {
		return nil, driver.ErrSkip
	}
	return driver.RowsAffected(1), c.f.run(ctx, "exec", query, args)
}

func (c *fakeConn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.f.kind == "skips" && len(args) > 0 {
		return nil, driver.ErrSkip
	}
	if err := c.f.run(ctx, "query", query, args); err != nil {
		return nil, err
	}
	return c.f.result(query), nil
}

// fakeTx is what a transaction of the plain pool ends with.
type fakeTx struct{ f *fake }

func (t fakeTx) Commit() error   { return t.f.run(context.Background(), "exec", "COMMIT", nil) }
func (t fakeTx) Rollback() error { return t.f.run(context.Background(), "exec", "ROLLBACK", nil) }

// session is the engine's.
type session struct{ s *stand }

func (s *session) Commit(ctx context.Context) error { return s.s.f.run(ctx, "exec", "COMMIT", nil) }

func (s *session) Rollback(ctx context.Context) error { return s.s.f.run(ctx, "exec", "ROLLBACK", nil) }

func (s *session) Check() error {
	if s.s.check == nil {
		return nil
	}
	return s.s.check()
}

// The kinds of connections that drivers have.
type (
	fullConn   struct{ *fakeConn } // all but a checker
	checkConn  struct{ fullConn }
	mortalConn struct{ fullConn }
	execConn   struct{ *fakeConn }
	queryConn  struct{ *fakeConn }
	legacyConn struct{ *fakeConn }
)

func (c *fakeConn) as(kind string) driver.Conn {
	switch kind {
	case "old":
		return c
	case "legacy":
		return legacyConn{c}
	case "exec only":
		return execConn{c}
	case "query only":
		return queryConn{c}
	case "checks":
		return checkConn{fullConn{c}}
	case "mortal":
		return mortalConn{fullConn{c}}
	default: // "", "skips"
		return fullConn{c}
	}
}

var connKinds = []string{"", "skips", "checks", "old", "legacy", "exec only", "query only"}

func (c fullConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, query, args)
}

func (c fullConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, query, args)
}

func (c fullConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.prepare(ctx, query)
}

func (c fullConn) Ping(ctx context.Context) error { return c.f.run(ctx, "ping", "", nil) }

func (c mortalConn) IsValid() bool { return !c.f.dead }

func (c execConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, query, args)
}

func (c queryConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, query, args)
}

func (c legacyConn) Exec(query string, args []driver.Value) (driver.Result, error) {
	return c.exec(context.Background(), query, namedValues(args))
}

func (c legacyConn) Query(query string, args []driver.Value) (driver.Rows, error) {
	return c.query(context.Background(), query, namedValues(args))
}

// special is a type that only the fake's checkers know.
type special struct{ n int }

func (c checkConn) CheckNamedValue(nv *driver.NamedValue) error {
	return checkValue(nv, "conn")
}

func checkValue(nv *driver.NamedValue, who string) error {
	switch v := nv.Value.(type) {
	case special:
		nv.Value = fmt.Sprintf("special %d by %s", v.n, who)
		return nil
	case []int64:
		return nil // taken as it is
	case chan int:
		return driver.ErrRemoveArgument
	case complex128:
		return errors.New("no complex numbers")
	}
	return driver.ErrSkip
}

func namedValues(args []driver.Value) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values
}

type fakeStmt struct {
	f     *fake
	query string
}

func (s *fakeStmt) Close() error  { return s.f.run(context.Background(), "close", s.query, nil) }
func (s *fakeStmt) NumInput() int { return s.f.numInput }

func (s *fakeStmt) Exec(args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.run(context.Background(), "exec", s.query, namedValues(args))
}

func (s *fakeStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.rows(context.Background(), namedValues(args))
}

func (s *fakeStmt) rows(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.f.run(ctx, "query", s.query, args); err != nil {
		return nil, err
	}
	return s.f.result(s.query), nil
}

// The kinds of statements that drivers have.
type (
	contextStmt struct{ *fakeStmt }
	checkStmt   struct{ contextStmt }
	columnStmt  struct{ *fakeStmt }
	allStmt     struct{ checkStmt }
)

func (s *fakeStmt) as(kind string) driver.Stmt {
	switch kind {
	case "old":
		return s
	case "checks":
		return checkStmt{contextStmt{s}}
	case "converts":
		return columnStmt{s}
	case "all":
		return allStmt{checkStmt{contextStmt{s}}}
	default:
		return contextStmt{s}
	}
}

var stmtKinds = []string{"", "old", "checks", "converts", "all"}

func (s contextStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.run(ctx, "exec", s.query, args)
}

func (s contextStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.rows(ctx, args)
}

func (s checkStmt) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv, "stmt") }

func (s columnStmt) ColumnConverter(idx int) driver.ValueConverter { return upper{idx} }
func (s allStmt) ColumnConverter(idx int) driver.ValueConverter    { return upper{idx} }

// upper is a column's converter that is easy to see.
type upper struct{ column int }

func (u upper) ConvertValue(v any) (driver.Value, error) {
	switch v := v.(type) {
	case string:
		return strings.ToUpper(v), nil
	case uint64:
		return v, nil // no driver.Value
	case bool:
		return nil, errors.New("no booleans")
	}
	return driver.DefaultParameterConverter.ConvertValue(v)
}

func (f *fake) result(query string) driver.Rows {
	plain := fakeRows{f: f, query: query}
	switch query {
	case "TYPED", "NIL TYPE":
		return &typedRows{fakeRows: plain}
	case "SETS", "SETS FAIL":
		return &typedRows{fakeRows: plain, sets: 2}
	}
	return &plain
}

// fakeRows has one column and three rows; it has no optional interface.
type fakeRows struct {
	f     *fake
	query string
	row   int
}

func (r *fakeRows) Columns() []string { return []string{"n"} }
func (r *fakeRows) Close() error      { return r.f.run(context.Background(), "close rows", r.query, nil) }

func (r *fakeRows) Next(dest []driver.Value) error {
	r.row++
	if r.f.next != nil {
		if err := r.f.next(r.query, r.row); err != nil {
			return err
		}
	}
	if r.row > r.f.rows {
		return io.EOF
	}
	dest[0] = []byte(fmt.Sprint(r.row))
	return nil
}

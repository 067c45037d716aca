package guarded

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Errors of the gate; package store gives them their public names.
var (
	ErrDoomed    = errors.New("the transaction is doomed")
	ErrBusy      = errors.New("the transaction is used by two goroutines, or a Rows was not closed")
	ErrForbidden = errors.New("the transaction is the guard's to end")
	ErrTooLarge  = errors.New("the statement is larger than the server takes")
)

// errUnfinished dooms for a call of the driver that did not return.
var errUnfinished = errors.New("the driver did not return from a statement: a panic or a Goexit went through it")

// DoomedError is why a transaction cannot be committed: its first failure that was
// not undone.
type DoomedError struct{ First error }

// Error names the first failure.
func (d *DoomedError) Error() string {
	if errors.Is(d.First, ErrForbidden) {
		return d.First.Error()
	}
	return "the transaction is doomed by an earlier failure: " + d.First.Error() +
		": return that error, or run a statement that may fail in once.Savepoint"
}

// Unwrap returns the first failure.
func (d *DoomedError) Unwrap() error { return d.First }

// Is reports whether target is ErrDoomed.
func (d *DoomedError) Is(target error) bool { return target == ErrDoomed }

// statement is what the gate must know of one statement of the handler.
type statement struct {
	text     string
	forgives bool // a single ROLLBACK TO
	copies   bool // COPY, of which a driver may make a statement that takes rows
}

// judge reads the statement's first words and its size. What it refuses dooms.
func (c *Conn) judge(query string, args []driver.NamedValue) (statement, error) {
	if c.plain {
		return statement{}, nil
	}
	verdict := c.pool.judge(query)
	if verdict.Refused != "" {
		return statement{}, c.fail(fmt.Errorf("%w: %s was refused: %s", ErrForbidden, verdict.Refused, verdict.Why), true)
	}
	return statement{text: query, forgives: verdict.RollbackTo, copies: verdict.Copy}, c.weigh(query, args)
}

// drive lets call use the driver connection for one statement. call says how
// it ended with leave, or keeps the connection busy.
func (c *Conn) drive(ctx context.Context, s statement, call func() error) error {
	if err := c.enter(s); err != nil {
		return err
	}
	c.use.Lock()
	defer c.use.Unlock()
	if c.over() { // it ended between the two
		return sql.ErrTxDone
	}
	defer c.watch(ctx)()
	returned := false
	defer func() {
		if !returned && !c.idle() {
			c.broken()
			c.leave(statement{}, errUnfinished)
		}
	}()
	err := call()
	returned = true
	return err
}

// broken notes that a call of the driver did not return. Nobody knows what state
// the driver is in; and database/sql, for some calls, holds a lock for ever now.
func (c *Conn) broken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad, c.left = true, true
}

// enter admits one statement, or says why not.
func (c *Conn) enter(s statement) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.plain:
		return nil
	case c.ended:
		return sql.ErrTxDone
	case c.busy:
		err := fmt.Errorf("%w: %s was sent while %s was running or its Rows was open", ErrBusy, s.named(), c.current.named())
		c.dooms(err, true)
		return err
	case c.doom != nil && (c.final || !s.forgives):
		return &DoomedError{First: c.doom}
	}
	c.busy, c.used, c.current = true, true, s
	return nil
}

// named is what an error calls a statement.
func (s statement) named() string {
	const most = 60
	text := strings.Join(strings.Fields(s.text), " ")
	switch r := []rune(text); {
	case text == "":
		return "a call on the connection"
	case len(r) > most:
		return strconv.Quote(string(r[:most]) + "…")
	default:
		return strconv.Quote(text)
	}
}

func (c *Conn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *Conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.busy
}

// leave ends what enter admitted. The caller holds use.
func (c *Conn) leave(s statement, err error) {
	if c.plain {
		return
	}
	c.closeLate()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.open, c.copying = false, nil, nil
	switch {
	case err != nil:
		c.dooms(err, false)
	case s.forgives && !c.final:
		// The server undid everything since the savepoint, which was set
		// before the failure: nothing is sent after one.
		c.doom = nil
	}
}

// closeLate closes the statements whose turn it was not. The caller holds use.
func (c *Conn) closeLate() {
	c.mu.Lock()
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, s := range late {
		_ = s.inner.Close() // database/sql has moved on
	}
}

// fail dooms for a failure that did not reach the driver.
func (c *Conn) fail(err error, final bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.plain && !c.ended {
		c.dooms(err, final)
	}
	return err
}

// dooms keeps the first failure. The caller holds the lock.
func (c *Conn) dooms(err error, final bool) {
	if c.doom == nil {
		c.doom = err
	}
	c.final = c.final || final
	if errors.Is(err, driver.ErrBadConn) {
		c.bad = true
	}
}

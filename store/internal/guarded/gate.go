package guarded

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// Errors of the gate; package store gives them their public names.
var (
	ErrDoomed    = errors.New("the transaction is doomed")
	ErrBusy      = errors.New("the transaction is used by two goroutines, or a Rows was not closed")
	ErrForbidden = errors.New("the transaction is the guard's to end")
	ErrTooLarge  = errors.New("the statement is larger than the server takes")
)

// Doom is why a transaction cannot be committed: its first failure that was
// not undone.
type Doom struct{ First error }

// Error names the first failure.
func (d *Doom) Error() string {
	return "the transaction is doomed by an earlier failure that was not undone with ROLLBACK TO: " + d.First.Error()
}

// Unwrap returns the first failure.
func (d *Doom) Unwrap() error { return d.First }

// Is reports whether target is ErrDoomed.
func (d *Doom) Is(target error) bool { return target == ErrDoomed }

// statement is what the gate must know of one statement of the handler.
type statement struct {
	forgives bool // a single ROLLBACK TO
}

// judge reads the statement's first words and its size.
func (c *Conn) judge(query string, args []driver.NamedValue) (statement, error) {
	if c.plain {
		return statement{}, nil
	}
	verdict := c.rules.Judge(query)
	if verdict.Refused != "" {
		return statement{}, fmt.Errorf("%w: %s was refused: %s", ErrForbidden, verdict.Refused, verdict.Why)
	}
	if c.rules.MaxStatement != nil {
		if size, limit := sizeOf(query, args), c.rules.MaxStatement(); limit > 0 && size > limit {
			return statement{}, fmt.Errorf("%w: %d bytes, the limit is %d (%s)", ErrTooLarge, size, limit, c.rules.MaxStatementName)
		}
	}
	return statement{forgives: verdict.RollbackTo}, nil
}

func sizeOf(query string, args []driver.NamedValue) int64 {
	size := int64(len(query))
	for _, a := range args {
		switch v := a.Value.(type) {
		case []byte:
			size += int64(len(v))
		case string:
			size += int64(len(v))
		default:
			size += 16
		}
	}
	return size
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
		c.dooms(ErrBusy, true)
		return ErrBusy
	case c.doom != nil && (c.final || !s.forgives):
		return &Doom{First: c.doom}
	}
	c.busy, c.used = true, true
	return nil
}

// because makes the end of the statement's own context visible in err: some
// drivers report only what the server said to their cancel request.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) || errors.Is(err, driver.ErrSkip) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// leave ends what enter admitted.
func (c *Conn) leave(s statement, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plain {
		return
	}
	c.busy = false
	switch {
	case errors.Is(err, driver.ErrSkip): // not a failure: database/sql takes another way
	case err != nil:
		c.dooms(err, false)
	case s.forgives && !c.final:
		// The server undid everything since the savepoint, which was set
		// before the failure: nothing is sent after one.
		c.doom = nil
	}
}

// fail dooms for a failure that did not reach the driver.
func (c *Conn) fail(err error, final bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.plain {
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

// finish ends the transaction for handlerTx: it commits when the engine armed
// the commit and nothing speaks against it, and rolls back otherwise.
func (c *Conn) finish(commit bool) error {
	// database/sql has waited for statements and Rows; only Raw passes it by.
	// The engine waits for that too. The handler must not: it may be inside.
	if c.engineEnds() {
		c.lent.Lock()
	} else if !c.lent.TryLock() {
		return c.fail(ErrBusy, true)
	}
	defer c.lent.Unlock()

	c.mu.Lock()
	armed, bound := c.commit, c.bound
	if commit && armed == nil {
		c.dooms(fmt.Errorf("%w: the handler called Commit on it", ErrForbidden), true)
	}
	done, doom := c.ended, c.doom
	c.ended = true
	c.mu.Unlock()

	switch {
	case done:
		return sql.ErrTxDone
	case commit && doom == nil:
		return c.session.Commit(armed)
	}
	ctx, cancel := bound()
	defer cancel()
	if err := c.session.Rollback(ctx); err != nil {
		c.Discard()
		if doom == nil {
			return err
		}
	}
	if commit {
		return &Doom{First: doom}
	}
	return nil
}

func (c *Conn) engineEnds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

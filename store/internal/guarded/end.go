package guarded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Commit commits tx within ctx. The error is a *DoomedError when the transaction may
// not be committed; it was rolled back then. Otherwise it is the session's.
func (c *Conn) Commit(ctx context.Context, tx *sqlx.Tx) error {
	defer c.letGo(tx)
	return c.end(ctx, true)
}

// Rollback rolls tx back, unless the handler did it already.
func (c *Conn) Rollback(tx *sqlx.Tx) error {
	defer c.letGo(tx)
	ctx, cancel := c.bound()
	defer cancel()
	return c.end(ctx, false)
}

// end ends the transaction on the driver connection itself. Were it left to
// tx.Commit, a Rows that the handler did not close could keep it waiting for
// ever: one that was scanned into sql.RawBytes does.
func (c *Conn) end(ctx context.Context, commit bool) error {
	if c.running() && commit {
		// What it would have written is not certain to be there.
		_ = c.fail(fmt.Errorf("%w: a statement was still running when the handler returned", ErrBusy), true)
	}
	if !c.seize(ctx) {
		return c.abandon(commit)
	}
	defer c.use.Unlock()
	returned := false
	defer func() {
		if !returned { // a panic in the driver
			c.broken()
		}
	}()
	err := c.conclude(ctx, commit)
	returned = true
	return err
}

// conclude ends the transaction. The caller holds use.
func (c *Conn) conclude(ctx context.Context, commit bool) error {
	c.tidy()
	c.closePrepared()
	c.mu.Lock()
	done := c.ended
	c.ended = true
	if done && commit {
		c.dooms(fmt.Errorf("%w: the handler called Rollback on it (a deferred one?): remove that, return nil to commit, an error to roll back", ErrForbidden), true)
	}
	doom := c.doom
	c.mu.Unlock()

	if commit && doom == nil {
		err := c.session.Commit(ctx)
		if _, ok := errors.AsType[*NotKeptError](err); ok {
			_ = c.undo() // or the connection is discarded
		}
		return err
	}
	var err error
	if !done {
		err = c.undo()
	}
	if commit {
		return &DoomedError{First: doom}
	}
	return err
}

// NotKeptError is what a session's Commit fails with when what it was to store
// before COMMIT could not be stored, and COMMIT was certainly not carried out.
type NotKeptError struct{ Err error }

// Error is the cause's.
func (e *NotKeptError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotKeptError) Unwrap() error { return e.Err }

// undo rolls back within its own bound.
func (c *Conn) undo() error {
	ctx, cancel := c.bound()
	defer cancel()
	err := c.session.Rollback(ctx)
	if err != nil {
		c.Discard()
	}
	return err
}

// running reports whether some goroutine of the handler's is inside the driver.
func (c *Conn) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy && c.open == nil && c.copying == nil
}

// seize waits until the driver works for nobody, at most until ctx ends.
func (c *Conn) seize(ctx context.Context) bool {
	if c.use.TryLock() {
		return true
	}
	free := make(chan struct{})
	go func() {
		c.use.Lock()
		close(free)
	}()
	select {
	case <-free:
		return true
	case <-ctx.Done():
		c.freed = free
		return false
	}
}

// abandon gives up on a connection in which a statement of the handler's runs
// on. Release rolls back and closes it behind that statement.
func (c *Conn) abandon(commit bool) error {
	err := fmt.Errorf("%w: a statement was still running long after the handler returned", ErrBusy)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.left, c.bad = true, true, true
	if commit {
		c.dooms(err, true)
		return &DoomedError{First: c.doom}
	}
	return err
}

// tidy closes the Rows that the handler left open, and ends its COPY, where an
// error may still hide. The caller holds use.
func (c *Conn) tidy() {
	c.mu.Lock()
	open, copying := c.open, c.copying
	c.left = c.left || open != nil
	c.mu.Unlock()
	if open != nil {
		_ = open.end()
	}
	if copying != nil {
		_ = copying.endCopy() // it doomed
	}
}

// closePrepared frees the handler's statements on the server. database/sql does
// it behind the end of the transaction; but there a pooler may have given the
// server's session to somebody else already, with the statements in it. The
// caller holds use.
func (c *Conn) closePrepared() {
	c.mu.Lock()
	prepared, bad := c.prepared, c.bad
	c.prepared, c.late = nil, nil
	c.mu.Unlock()
	if bad || len(prepared) == 0 {
		return
	}
	ctx, cancel := c.bound()
	defer cancel()
	defer c.watch(ctx)()
	for _, s := range prepared {
		if s.inner.Close() != nil {
			c.Discard()
			return
		}
	}
}

// letGo lets database/sql clean up what it knows of a transaction that has
// ended. Whatever it still does reaches the driver no more, so it may take its
// time where the handler left something open.
func (c *Conn) letGo(tx *sqlx.Tx) {
	c.mu.Lock()
	left := c.left
	c.mu.Unlock()
	if left {
		go func() { _ = tx.Rollback() }()
		return
	}
	_ = tx.Rollback()
}

// handlerEnds is the handler's own Commit or Rollback: both roll back.
func (c *Conn) handlerEnds(commit bool) error {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return sql.ErrTxDone
	}
	if commit {
		c.dooms(fmt.Errorf("%w: the handler called Commit on it: remove that, return nil to commit, an error to roll back", ErrForbidden), true)
	}
	if c.busy && c.copying == nil {
		// database/sql has waited for statements and Rows. Only Raw passes it
		// by, and this may be a call from inside.
		c.dooms(fmt.Errorf("%w: it was ended on the raw connection", ErrBusy), true)
		c.mu.Unlock()
		return ErrBusy
	}
	c.mu.Unlock()

	c.use.Lock()
	defer c.use.Unlock()
	c.tidy()
	c.closePrepared()
	c.mu.Lock()
	done, doom := c.ended, c.doom
	c.ended = true
	c.mu.Unlock()
	if done {
		return sql.ErrTxDone
	}
	err := c.undo()
	if commit {
		return &DoomedError{First: doom}
	}
	return err
}

package guarded

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/jmoiron/sqlx"
)

// Session ends the transaction that is open on a borrowed connection, in the
// way that suits its driver. Its calls are made one at a time.
type Session interface {
	// Commit returns nil only when the server said that it committed.
	Commit(ctx context.Context) error
	// Rollback returns nil only when no transaction is open any more.
	Rollback(ctx context.Context) error
}

// Checker is a Session that can tell whether its transaction is still open and
// healthy, from what the driver knows without asking the server.
type Checker interface{ Check() error }

// Conn is one borrowed driver connection. The engine's own statements (Exec,
// QueryRow) go straight to the driver; the handler's come through the *sql.Tx
// of Begin and obey the rules. The engine's calls are made from one goroutine;
// the handler may use its transaction from any.
type Conn struct {
	raw     driver.Conn
	lendErr error
	pool    *Pool
	rules   Rules
	session Session
	plain   bool // borrowed by the handle itself: no transaction, no rules
	bound   func() (context.Context, context.CancelFunc)

	release  chan error    // ends the loan
	returned chan struct{} // closed when the application's pool has it back
	detached chan struct{} // closed when the private pool let go of it

	lent     sync.Mutex // held while Raw's function has the driver connection
	mu       sync.Mutex
	attached bool
	busy     bool  // a statement runs or its Rows is open
	used     bool  // the handler sent at least one statement
	ended    bool  // committed or rolled back
	ending   bool  // by the engine, not by the handler
	bad      bool  // not fit for the next user
	doom     error // why the transaction cannot be committed
	final    bool  // ... and no ROLLBACK TO forgives it
	commit   context.Context
}

// Driver returns the application's driver connection.
func (c *Conn) Driver() driver.Conn { return c.raw }

// attach reports whether the private pool may have the connection: once.
func (c *Conn) attach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached {
		return false
	}
	c.attached = true
	return true
}

// Begin hands the transaction that session speaks for, already open on the
// server, to a handler. bound makes the context of a rollback.
func (c *Conn) Begin(ctx context.Context, session Session, bound func() (context.Context, context.CancelFunc)) (*sqlx.Tx, error) {
	c.session, c.bound = session, bound
	// Without cancellation: see docs/decisions.md §2.
	return c.pool.begin(context.WithoutCancel(ctx), c)
}

// Commit commits tx within ctx. The error is a *Doom when the transaction may
// not be committed; it was rolled back then. Otherwise it is the session's.
func (c *Conn) Commit(ctx context.Context, tx *sqlx.Tx) error {
	c.mu.Lock()
	c.ending, c.commit = true, ctx
	c.mu.Unlock()
	err := tx.Commit()
	c.await()
	if errors.Is(err, sql.ErrTxDone) {
		// The handler called Rollback, which forgives nothing.
		_ = c.fail(fmt.Errorf("%w: the handler ended it", ErrForbidden), true)
	}
	if doom := c.Doom(); doom != nil {
		return doom
	}
	return err
}

// Rollback rolls tx back, unless the handler did it already.
func (c *Conn) Rollback(tx *sqlx.Tx) error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	err := tx.Rollback()
	c.await()
	if errors.Is(err, sql.ErrTxDone) {
		err = c.finish(false) // nothing to do, but for one that was ended inside Raw
	}
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// await waits until database/sql has let go of the connection: the transaction
// may have been ended by another goroutine that is still at it.
func (c *Conn) await() {
	<-c.detached
}

// Discard marks the connection as not fit for the next user.
func (c *Conn) Discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = true
}

// Release gives the connection back and waits until the application's pool has
// it. A connection in doubt is discarded there.
func (c *Conn) Release() {
	c.mu.Lock()
	var verdict error
	if c.bad {
		verdict = driver.ErrBadConn
	}
	c.mu.Unlock()
	c.release <- verdict
	<-c.returned
}

// Doom returns why the transaction cannot be committed, as a *Doom, or nil.
func (c *Conn) Doom() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doom == nil {
		return nil
	}
	return &Doom{First: c.doom}
}

// Used reports whether the handler sent anything on its transaction.
func (c *Conn) Used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Raw lends the driver connection to fn as one statement of the handler: an
// error dooms, and so does a transaction that is not as it was.
func (c *Conn) Raw(fn func(driver.Conn) error) (err error) {
	if !c.lent.TryLock() {
		return c.fail(ErrBusy, true)
	}
	defer c.lent.Unlock()
	if err := c.enter(statement{}); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // a panic or a Goexit went through
			err = errors.New("the function given the raw connection did not return")
		}
		if checker, ok := c.session.(Checker); ok && err == nil {
			err = checker.Check()
		}
		c.leave(statement{}, err)
	}()
	err = fn(c.raw)
	done = true
	return err
}

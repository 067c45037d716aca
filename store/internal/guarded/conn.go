package guarded

import (
	"context"
	"database/sql/driver"
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
	deaf    bool // see CutOff
	breaks  func()
	bound   func() (context.Context, context.CancelFunc)

	release chan error    // ends the loan
	turn    chan struct{} // from the loan: the connection is here, and later, the pool has it back

	// use is held while the driver works for the handler, and while the
	// transaction is ended: so that the end, which does not go through
	// database/sql, never meets a statement. It is taken before mu.
	use sync.Mutex

	mu       sync.Mutex
	attached bool
	busy     bool      // a statement runs, its Rows is open, or Raw has the connection
	current  statement // while busy
	open     *rows     // the Rows that is open
	copying  *stmt     // the COPY that takes rows
	prepared []*stmt   // those that are not closed yet
	late     []*stmt   // those that were closed while it was busy
	used     bool      // the handler sent at least one statement
	ended    bool      // committed or rolled back
	left     bool      // something of the handler's was still open at the end
	bad      bool      // not fit for the next user
	doom     error     // why the transaction cannot be committed
	final    bool      // ... and no ROLLBACK TO forgives it

	freed chan struct{} // set when the end could not wait for a statement; closed when it is over
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
func (c *Conn) Begin(session Session, bound func() (context.Context, context.CancelFunc)) (*sqlx.Tx, error) {
	c.session, c.bound = session, bound
	return c.pool.begin(c)
}

// Discard marks the connection as not fit for the next user.
func (c *Conn) Discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = true
}

// Breaks sets what closes the driver connection when it must not be used again:
// the pool may have a pool under it (pgxpool under pgx's stdlib), which would
// only get it back.
func (c *Conn) Breaks(closes func()) { c.breaks = closes }

// Release gives the connection back and waits until the application's pool has
// it. A connection in doubt is discarded there. One in which a statement of
// the handler's still runs goes back, to be discarded, when that ends.
func (c *Conn) Release() {
	if c.freed != nil {
		go func() {
			<-c.freed
			_ = c.undo() // it is discarded anyway
			c.giveBack()
		}()
		return
	}
	c.giveBack()
	<-c.turn
}

func (c *Conn) giveBack() {
	c.mu.Lock()
	bad := c.bad
	c.mu.Unlock()
	if !bad {
		c.release <- nil
		return
	}
	if c.breaks != nil {
		c.breaks()
	}
	c.release <- driver.ErrBadConn
}

// Doom returns why the transaction cannot be committed, as a *DoomedError, or nil.
func (c *Conn) Doom() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doom == nil {
		return nil
	}
	return &DoomedError{First: c.doom}
}

// Used reports whether the handler sent anything on its transaction.
func (c *Conn) Used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

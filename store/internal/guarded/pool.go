package guarded

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// Pool borrows connections from an application's pool, which it never closes.
// It is safe for concurrent use.
type Pool struct {
	app    *sqlx.DB
	rules  Rules
	judged verdicts
	mu     sync.RWMutex
	handle *sqlx.DB // begins the handler's transactions; opened when first needed
}

// NewPool returns a Pool over app whose transactions obey rules.
func NewPool(app *sqlx.DB, rules Rules) *Pool {
	return &Pool{app: app, rules: rules}
}

// Handle is the private pool that the handler's transactions belong to. A
// statement prepared on it can be used with tx.Stmt in any attempt. It borrows
// from the application's pool as needed and keeps nothing idle; a transaction
// cannot be begun on it from outside. It has the driver's name (for Rebind), the
// Mapper and the Unsafe of the application's pool, so the handler's sqlx.Tx has
// them too.
func (p *Pool) Handle() *sqlx.DB {
	p.mu.RLock()
	h := p.handle
	p.mu.RUnlock()
	if h != nil {
		return h
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle == nil {
		handle := *p.app // with all that sqlx knows of it
		handle.DB = sql.OpenDB(&connector{p, &handle})
		p.handle = &handle
		p.handle.SetMaxIdleConns(-1) // a loan ends with its transaction
	}
	return p.handle
}

// Close closes the private pool. A later attempt opens it again, so stores
// that share an application's pool, or guards that share a store, may close in
// any order.
func (p *Pool) Close() error {
	p.mu.Lock()
	h := p.handle
	p.handle = nil
	p.mu.Unlock()
	if h == nil {
		return nil
	}
	return h.Close()
}

// begin hands c to database/sql and gets the handler's transaction for it. The
// read lock keeps Close away until database/sql has taken the connection.
func (p *Pool) begin(c *Conn) (*sqlx.Tx, error) {
	for {
		h := p.Handle()
		p.mu.RLock()
		if p.handle != h {
			p.mu.RUnlock()
			continue
		}
		tx, err := h.BeginTxx((*loan)(c), nil)
		p.mu.RUnlock()
		return tx, err
	}
}

// Borrow takes a connection from the application's pool until Release. Waiting
// for it, and opening a new one, ends with ctx.
func (p *Pool) Borrow(ctx context.Context) (*Conn, error) {
	conn, err := p.app.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		rules:   p.rules,
		pool:    p,
		release: make(chan error, 1),
		turn:    make(chan struct{}, 1),
	}
	// Raw keeps the driver connection locked for us as long as its function
	// runs, so the loan is a goroutine. It is not the attempt's own goroutine,
	// because a panic or a Goexit of the handler would then pass through Raw,
	// which discards a healthy connection for it.
	go func() {
		defer func() { c.turn <- struct{}{} }() // never waits
		defer conn.Close()                      // Raw has released the connection already
		err := conn.Raw(func(dc any) error {
			if c.raw, _ = dc.(driver.Conn); c.raw == nil {
				return errors.New("the pool's connection is not a driver.Conn")
			}
			c.turn <- struct{}{}
			return <-c.release
		})
		if err != nil && c.raw == nil {
			c.lendErr = err
		}
	}()
	<-c.turn
	if c.raw == nil {
		return nil, fmt.Errorf("borrow a connection: %w", c.lendErr)
	}
	return c, nil
}

type borrowedKey struct{}

// loan is the context in which database/sql finds a borrowed connection. It is
// the connection under another method set, so it costs nothing, and has no end
// of its own: see docs/decisions.md §2.
type loan Conn

func (*loan) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*loan) Done() <-chan struct{}                   { return nil }
func (*loan) Err() error                              { return nil }

func (l *loan) Value(key any) any {
	if key == (borrowedKey{}) {
		return (*Conn)(l)
	}
	return nil
}

// connector makes the private pool's connections out of borrowed ones.
type connector struct {
	pool   *Pool
	handle *sqlx.DB
}

// Connect wraps the connection that the attempt put into ctx. Without one
// (somebody prepares on the handle) it borrows for itself.
func (k *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c, ok := ctx.Value(borrowedKey{}).(*Conn); ok && c.attach() {
		return c.wrap(), nil
	}
	c, err := k.pool.Borrow(ctx)
	if err != nil {
		return nil, err
	}
	c.plain = true
	return c.wrap(), nil
}

// Driver returns the driver of the application's pool.
func (k *connector) Driver() driver.Driver { return k.pool.app.Driver() }

// Close is what database/sql calls when the handle is closed, by whomever: GORM
// closes the pool under a transaction that it was given when it cannot start on
// it. The next attempt opens another.
func (k *connector) Close() error {
	k.pool.mu.Lock()
	defer k.pool.mu.Unlock()
	if k.pool.handle == k.handle {
		k.pool.handle = nil
	}
	return nil
}

package store

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// transaction is the transaction of one attempt. guardedTx is the way it is
// meant; directTx does without the guarded connection.
type transaction interface {
	// begin begins and claims; see [Session.Begin].
	begin(ctx context.Context, row *Row) (*Standing, error)
	// outside runs a statement on its connection once it was abandoned.
	outside() Querier
	// hand gives it to the handler, attach puts it into the handler's context.
	hand() (*sqlx.Tx, error)
	attach(ctx context.Context) context.Context

	// commit stores a batch, if there is one, and commits.
	commit(b *Batch) error
	rollback()
	// abandon rolls back one that was never handed over.
	abandon()
	// release gives the connection back; discard first says that it must not
	// be used again.
	discard()
	release()

	// doom and unused are nil and false where nobody watched.
	doom() error
	unused() bool
}

// open gets a connection for an attempt within the acquire bound.
func (s *SQL) open(ctx context.Context, c Claim, row *Row) (transaction, error) {
	acquire, cancel := context.WithTimeout(ctx, c.Bounds.Acquire)
	defer cancel()
	server, err := s.inspected(acquire)
	if err != nil {
		return nil, s.cancelled(ctx, err)
	}
	row.Server = server
	var t transaction
	if s.options.direct {
		t, err = s.openDirect(acquire, c)
	} else {
		t, err = s.openGuarded(acquire, c)
	}
	if err != nil {
		if ctx.Err() == nil && acquire.Err() != nil {
			err = fmt.Errorf("no connection within %s (pool: %s): %w", c.Bounds.Acquire, poolState(s.db), err)
		}
		return nil, s.cancelled(ctx, s.unavailable("get a connection", err))
	}
	return t, nil
}

func poolState(db *sqlx.DB) string {
	st := db.Stats()
	return fmt.Sprintf("%d of %d in use, %d waiting calls", st.InUse, st.MaxOpenConnections, st.WaitCount)
}

type guardedTx struct {
	store   *SQL
	bounds  Bounds
	conn    *guarded.Conn
	session Session
	tx      *sqlx.Tx
}

func (s *SQL) openGuarded(ctx context.Context, c Claim) (transaction, error) {
	conn, err := s.pool.Borrow(ctx)
	if err != nil {
		return nil, err
	}
	session := s.dialect.Session(conn, s.names, s.options.level)
	if b, ok := session.(Breaker); ok {
		conn.Breaks(b.Break)
	}
	return &guardedTx{store: s, bounds: c.Bounds, conn: conn, session: session}, nil
}

func (t *guardedTx) begin(ctx context.Context, row *Row) (*Standing, error) {
	returned := false
	defer func() {
		if !returned { // a panic in the driver: nobody knows what it left
			t.conn.Discard()
		}
	}()
	standing, err := t.session.Begin(ctx, row)
	returned = true
	return standing, err
}

func (t *guardedTx) outside() Querier { return t.conn }

func (t *guardedTx) hand() (*sqlx.Tx, error) {
	tx, err := t.conn.Begin(t.session, t.rollbackBound)
	if err != nil {
		return nil, err
	}
	t.tx = tx
	return tx, nil
}

func (t *guardedTx) attach(ctx context.Context) context.Context {
	return context.WithValue(ctx, rawKey{}, t.conn)
}

func (t *guardedTx) commitBound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), t.bounds.Commit)
}

func (t *guardedTx) rollbackBound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), t.bounds.Rollback)
}

func (t *guardedTx) commit(b *Batch) error {
	ctx, cancel := t.commitBound()
	defer cancel()
	if b != nil {
		t.session.Keep(b)
	}
	return t.conn.Commit(ctx, t.tx)
}

func (t *guardedTx) rollback() {
	if err := t.conn.Rollback(t.tx); err != nil {
		t.conn.Discard()
	}
}

func (t *guardedTx) abandon() {
	ctx, cancel := t.rollbackBound()
	defer cancel()
	if err := t.session.Rollback(ctx); err != nil {
		t.conn.Discard()
	}
}

func (t *guardedTx) discard()     { t.conn.Discard() }
func (t *guardedTx) release()     { t.conn.Release() }
func (t *guardedTx) doom() error  { return t.conn.Doom() }
func (t *guardedTx) unused() bool { return !t.conn.Used() }

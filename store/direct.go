package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// directTx begins on the application's pool; see [Direct].
type directTx struct {
	store  *SQL
	bounds Bounds
	conn   *sqlx.Conn
	tx     *sqlx.Tx
	bad    bool
}

func (s *SQL) openDirect(ctx context.Context, c Claim) (transaction, error) {
	conn, err := s.db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	return &directTx{store: s, bounds: c.Bounds, conn: conn}, nil
}

// begin begins without cancellation, as the guarded connection does: a context
// that ends would roll back from a goroutine of database/sql's own.
func (t *directTx) begin(ctx context.Context, row *Row) (*Standing, error) {
	tx, err := t.conn.BeginTxx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: t.store.options.level})
	if err != nil {
		return nil, err
	}
	t.tx = tx
	return ClaimOrFind(ctx, t.store.dialect, poolQuerier{t.tx}, t.store.names, row)
}

func (t *directTx) outside() Querier { return poolQuerier{t.conn} }

func (t *directTx) hand() (*sqlx.Tx, error) { return t.tx, nil }

func (t *directTx) attach(ctx context.Context) context.Context { return ctx }

// commit has no bound of its own: database/sql gives it no context. Storing the
// outputs has.
func (t *directTx) commit(b *Batch) error {
	if err := t.keep(b); err != nil {
		t.rollback()
		return whoEnded(err)
	}
	return whoEnded(t.tx.Commit())
}

func (t *directTx) keep(b *Batch) error {
	if b == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.bounds.Commit)
	defer cancel()
	err := t.store.dialect.Keep(ctx, poolQuerier{t.tx}, t.store.names, b)
	if err != nil {
		return &NotKeptError{Err: err}
	}
	return nil
}

// whoEnded says why the transaction is over already.
func whoEnded(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("%w: the handler called Commit or Rollback on it (a deferred one?): remove that, return nil to commit, an error to roll back", ErrForbidden)
	}
	return err
}

func (t *directTx) rollback() {
	if t.tx == nil {
		return
	}
	if err := t.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		t.bad = true
	}
}

func (t *directTx) abandon()     { t.rollback() }
func (t *directTx) discard()     { t.bad = true }
func (t *directTx) doom() error  { return nil }
func (t *directTx) unused() bool { return false }

func (t *directTx) release() {
	if t.bad {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
		return
	}
	_ = t.conn.Close()
}

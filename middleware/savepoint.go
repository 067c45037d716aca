package once

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/watermill-once/watermill-once/store"
)

// Savepoint runs fn behind a savepoint of the transaction of [Tx]. When fn
// returns an error, what it wrote is undone, the transaction goes on, and the
// error is returned as it is: it is the way to try a statement that may fail. A
// failed statement outside a savepoint dooms the whole attempt.
//
//	err := once.Savepoint(ctx, func(ctx context.Context) error {
//		_, err := tx.ExecContext(ctx, `INSERT …`) // may hit a unique index
//		return err
//	})
//
// Savepoints may be nested, but not used from two goroutines at once. Functions
// that fn gave to [AfterCommit], and messages that it published through
// [Guard.Publisher], are dropped with its writes. A panic and a
// runtime.Goexit of fn undo its writes and go on. When they cannot be undone,
// the returned error carries both reasons and the attempt cannot commit.
func Savepoint(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	s, err := scopeOf(ctx)
	if err != nil {
		return err
	}
	p, err := s.begin(ctx)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned {
			_ = p.undo(ctx) // the panic goes on and rolls back, unless the handler recovers it
		}
	}()
	err = fn(ctx)
	returned = true
	if err == nil {
		err = p.release(ctx)
	}
	if err == nil {
		return nil
	}
	if undo := p.undo(ctx); undo != nil {
		return errors.Join(err, undo)
	}
	return err
}

// savepoint is one savepoint of a scope's transaction.
type savepoint struct {
	scope *scope
	name  string
	mark  mark
}

// begin sets a savepoint. Its number makes the name unique in the transaction,
// so that one inside another never hides it.
func (s *scope) begin(ctx context.Context) (*savepoint, error) {
	m, err := s.savepoint()
	if err != nil {
		return nil, err
	}
	p := &savepoint{scope: s, name: "once_" + strconv.Itoa(m.number), mark: m}
	return p, p.exec(ctx, "SAVEPOINT ")
}

// release lets the savepoint go, with what was written behind it. Like undo it
// does not depend on ctx, which may be what ended fn: a caller that gets an
// error takes it for undone.
func (p *savepoint) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultRollback)
	defer cancel()
	return p.exec(ctx, "RELEASE SAVEPOINT ")
}

// undo takes the writes back and lets the savepoint go.
func (p *savepoint) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultRollback)
	defer cancel()
	p.scope.forget(p.mark)
	if err := p.exec(ctx, "ROLLBACK TO SAVEPOINT "); err != nil {
		return err
	}
	return p.release(ctx)
}

func (p *savepoint) exec(ctx context.Context, statement string) error {
	tx, err := p.scope.use()
	if err == nil {
		_, err = tx.ExecContext(ctx, statement+p.name)
	}
	if err != nil {
		return fmt.Errorf("%s%s: %w", statement, p.name, err)
	}
	return nil
}

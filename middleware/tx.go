package once

import (
	"context"
	"sync"

	"github.com/jmoiron/sqlx"
)

// Tx returns the transaction that the claim was made in. What it writes commits
// together with the claim, before the message is acknowledged.
//
// The handler must not commit it or roll it back, and must not use it after it
// returned or from two goroutines at once. ctx is the message's context or one
// derived from it; without an attempt in it, or after the attempt ended, the
// error is [ErrNoTx]. Tx never falls back to the pool.
func Tx(ctx context.Context) (*sqlx.Tx, error) {
	s, err := scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.use()
}

// WithTx returns a context in which [Tx] finds tx, so that a handler can be
// tested without a guard:
//
//	msg.SetContext(once.WithTx(ctx, tx))
//	err := handle(msg)
//
// The transaction stays the caller's, who commits it or rolls it back.
// [Savepoint] works in it; functions given to [AfterCommit] are never called,
// since no guard commits.
func WithTx(ctx context.Context, tx *sqlx.Tx) context.Context {
	s := &scope{}
	s.open(tx)
	return context.WithValue(ctx, scopeKey{}, s)
}

// scopeKey finds the scope of a handler that runs, originKey also one that is
// over.
type (
	scopeKey  struct{}
	originKey struct{}
)

// scope is what the context of a running handler carries. It is safe for
// concurrent use, since handlers start goroutines.
type scope struct {
	guard *Guard // nil in WithTx
	seat  *seat  // nil in WithTx and Do
	store any    // the guard's, to notice an attempt inside an attempt
	outer *scope // of another store's attempt around this one

	mu         sync.Mutex
	tx         *sqlx.Tx // nil before and after the handler
	committed  bool
	asked      bool
	savepoints int
	hooks      []hook
	published  []*produced
	reported   error // the first one given to Report
	chainErr   error
}

// scopeOf finds the innermost attempt of a context, alive or not.
func scopeOf(ctx context.Context) (*scope, error) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return nil, ErrNoTx
	}
	return s, nil
}

func (s *scope) open(tx *sqlx.Tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx = tx
}

// close takes the transaction out of reach.
func (s *scope) close() { s.open(nil) }

func (s *scope) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tx != nil
}

// use hands out the transaction. The first handler of a chain that asks also
// shows which middlewares stand between it and the guard.
func (s *scope) use() (*sqlx.Tx, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx == nil {
		return nil, ErrNoTx
	}
	s.asked = true
	if s.seat != nil && s.chainErr == nil {
		s.chainErr = s.seat.chain.lookDown()
	}
	if s.chainErr != nil {
		return nil, s.chainErr
	}
	return s.tx, nil
}

// wrong returns what forbids to commit, whatever the handler returned: its
// place in the chain, or an error that it reported.
func (s *scope) wrong() (chain, reported error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chainErr, s.reported
}

func (s *scope) wasAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// add keeps a hook until the commit.
func (s *scope) add(h hook) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx == nil {
		return ErrNoTx
	}
	s.hooks = append(s.hooks, h)
	return nil
}

// mark is what a scope held when a savepoint was set.
type mark struct{ number, hooks, published int }

// savepoint numbers a savepoint and remembers what was there before.
func (s *scope) savepoint() (mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx == nil {
		return mark{}, ErrNoTx
	}
	s.savepoints++
	return mark{s.savepoints, len(s.hooks), len(s.published)}, nil
}

// forget drops the hooks and the outputs that came after a mark: what they
// would tell of was undone.
func (s *scope) forget(m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hooks[m.hooks:])
	s.hooks = s.hooks[:m.hooks]
	clear(s.published[m.published:])
	s.published = s.published[:m.published]
}

// take hands over the hooks, once.
func (s *scope) take() []hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	hooks := s.hooks
	s.hooks = nil
	return hooks
}

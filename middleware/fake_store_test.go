package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// fakeStore keeps claims in memory. With a db it hands out real transactions
// and ends them together with the claim; without, an empty one.
type fakeStore struct {
	store.Outbox

	db *sqlx.DB

	// before is asked before each claim, commit at each commit.
	before func(ctx context.Context, c store.Claim) error
	commit func() error

	mu        sync.Mutex
	claims    map[fakeKey]fakeClaim
	busy      map[fakeKey]chan struct{}
	asked     int // calls of Do that got as far as a statement
	commits   int
	rollbacks int
	open      int // transactions
	maxOpen   int
	unused    bool
	unsent    []store.Output
}

type fakeKey struct{ consumer, key string }

type fakeClaim struct {
	fingerprint string
	at          time.Time
}

func newFake() *fakeStore {
	return &fakeStore{claims: map[fakeKey]fakeClaim{}, busy: map[fakeKey]chan struct{}{}}
}

func (s *fakeStore) Do(ctx context.Context, c store.Claim, fn store.Func) (store.Result, error) {
	if store.InAttempt(ctx, s) {
		return store.Result{}, store.ErrNested
	}
	if s.before != nil {
		if err := s.before(ctx, c); err != nil {
			return store.Result{}, err
		}
	}
	k := fakeKey{c.Consumer, c.Key}
	dup, free, err := s.claim(ctx, k, c)
	if err != nil || dup != nil {
		return s.duplicate(dup, c, err)
	}
	defer free()
	return s.run(ctx, k, c, fn)
}

// claim waits for a copy in flight; a nil claim means that the key is the
// caller's until free.
func (s *fakeStore) claim(ctx context.Context, k fakeKey, c store.Claim) (*fakeClaim, func(), error) {
	timer := time.NewTimer(c.Wait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		s.asked++
		if found, ok := s.claims[k]; ok {
			s.mu.Unlock()
			return &found, nil, nil
		}
		other, ok := s.busy[k]
		if !ok {
			mine := make(chan struct{})
			s.busy[k] = mine
			s.open++
			s.maxOpen = max(s.maxOpen, s.open)
			s.mu.Unlock()
			return nil, func() { s.free(k, mine) }, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-timer.C:
			return nil, nil, store.ErrInFlight
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (s *fakeStore) free(k fakeKey, mine chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, k)
	s.open--
	close(mine)
}

func (s *fakeStore) duplicate(found *fakeClaim, c store.Claim, err error) (store.Result, error) {
	if err != nil {
		return store.Result{}, err
	}
	result := store.Result{Duplicate: true, ClaimedAt: found.at, Age: time.Since(found.at), Unsent: s.unsent}
	if c.Fingerprint != nil && string(c.Fingerprint) != found.fingerprint {
		return result, &store.KeyReusedError{Consumer: c.Consumer, Key: c.Key, ClaimedAt: found.at, Age: result.Age}
	}
	return result, nil
}

func (s *fakeStore) run(ctx context.Context, k fakeKey, c store.Claim, fn store.Func) (_ store.Result, err error) {
	tx := &sqlx.Tx{}
	if s.db != nil {
		if tx, err = s.db.BeginTxx(context.WithoutCancel(ctx), nil); err != nil {
			return store.Result{}, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
	ended := false
	defer func() {
		if !ended {
			s.rollback(tx)
		}
	}()
	inside, end := store.WithAttempt(ctx, s)
	defer end()
	_, err = fn(inside, tx)
	if err == nil {
		err = ctx.Err()
	}
	ended = true
	if err == nil && s.commit != nil {
		err = s.commit()
	}
	if err != nil && !errors.Is(err, errCommittedAnyway) {
		s.rollback(tx)
		return store.Result{}, err
	}
	if s.db != nil {
		if err := tx.Commit(); err != nil {
			return store.Result{}, fmt.Errorf("%w: %w", store.ErrCommitRefused, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	s.claims[k] = fakeClaim{fingerprint: string(c.Fingerprint), at: time.Now()}
	return store.Result{Unused: s.unused}, err
}

// errCommittedAnyway is for a commit whose answer is lost after it worked.
var errCommittedAnyway = fmt.Errorf("%w, though it worked", store.ErrCommitUnknown)

func (s *fakeStore) rollback(tx *sqlx.Tx) {
	if s.db != nil {
		_ = tx.Rollback()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rollbacks++
}

func (s *fakeStore) Purge(context.Context, store.Purge) (int64, error) { return 0, nil }

func (s *fakeStore) has(consumer, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.claims[fakeKey{consumer, key}]
	return ok
}

func (s *fakeStore) counts() (asked, commits, rollbacks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.commits, s.rollbacks
}

// nopStore does nothing but what the contract cannot do without.
type nopStore struct{ store.Outbox }

func (nopStore) Do(ctx context.Context, _ store.Claim, fn store.Func) (store.Result, error) {
	inside, end := store.WithAttempt(ctx, nopTx)
	defer end()
	_, err := fn(inside, nopTx)
	return store.Result{}, err
}

func (nopStore) Purge(context.Context, store.Purge) (int64, error) { return 0, nil }

var nopTx = &sqlx.Tx{}

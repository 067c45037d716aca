package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// maxClaimTries bounds how often a claim is tried in a fresh transaction when
// the database asks for that. Each try ends some other transaction's conflict,
// so a handful is plenty; past it the message is nacked.
const maxClaimTries = 10

// Do is [Store.Do].
func (s *SQL) Do(ctx context.Context, c Claim, fn Func) (Result, error) {
	c, row, err := s.row(c)
	if err != nil {
		return Result{}, err
	}
	if InAttempt(ctx, s.db.DB) {
		return Result{}, ErrNested
	}
	if err := s.queue.enter(ctx, c.Wait); err != nil {
		return Result{}, err
	}
	defer s.queue.leave()

	deadline := time.Now().Add(c.Wait)
	for tries := 1; ; tries++ {
		result, err := s.attempt(ctx, c, row, fn)
		result.Retries = tries - 1
		var again *conflictError
		if !errors.As(err, &again) {
			return result, err
		}
		if err := s.pause(ctx, tries, deadline, again); err != nil {
			return result, s.cancelled(ctx, err)
		}
	}
}

// pause waits a moment before a claim is tried in a fresh transaction, or says
// that it has been tried enough.
func (s *SQL) pause(ctx context.Context, tries int, deadline time.Time, again *conflictError) error {
	switch {
	case again.busy && !time.Now().Before(deadline):
		return fmt.Errorf("%w: %w", ErrInFlight, again.err)
	case !again.busy && (tries >= maxClaimTries || !time.Now().Before(deadline)):
		return s.unavailable(fmt.Sprintf("the claim met a conflict %d times", tries), again.err)
	}
	// Jittered, so that two that collided do not collide again.
	limit := min(25*time.Millisecond, time.Millisecond<<min(tries, 5))
	timer := time.NewTimer(min(time.Until(deadline), rand.N(limit)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// conflictError: the claim has to be tried in a fresh transaction. It never
// leaves Do, and never comes once fn ran.
type conflictError struct {
	err  error
	busy bool // not a conflict, only a lock that was not waited for
}

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }

// attempt is one transaction: begin, claim, and what follows from it.
func (s *SQL) attempt(ctx context.Context, c Claim, row *Row, fn Func) (Result, error) {
	t, err := s.open(ctx, c, row)
	if err != nil {
		return Result{}, err
	}
	defer t.release()

	standing, err := s.claim(ctx, t, c, row)
	switch {
	case err != nil:
		return Result{}, err
	case standing == nil:
		return s.run(ctx, t, row, fn)
	default:
		return s.duplicate(ctx, t, c, row, standing)
	}
}

// run hands the open transaction to fn and ends it: on every way out, also a
// panic's and a Goexit's.
func (s *SQL) run(ctx context.Context, t transaction, row *Row, fn Func) (Result, error) {
	tx, err := t.hand()
	if err != nil {
		t.abandon()
		return Result{}, s.unavailable("begin the handler's transaction", err)
	}
	ended := false
	defer func() {
		if !ended {
			t.rollback()
		}
	}()

	began := time.Now()
	inside, end := WithAttempt(ctx, s.db.DB)
	defer end()
	outputs, err := fn(t.attach(inside), tx)
	var batch *Batch
	if err == nil && len(outputs) > 0 {
		batch, err = s.batch(row, outputs)
	}
	if err == nil {
		err = ctx.Err() // it ended before the handler said yes
	}
	ended = true
	if err != nil {
		t.rollback()
		return Result{}, s.handlerFailed(ctx, err, t.doom(), time.Since(began))
	}
	if err := t.commit(batch); err != nil {
		return Result{}, s.commitFailed(ctx, err, t, time.Since(began))
	}
	result := Result{Unused: t.unused()}
	if batch != nil {
		result.Unsent = batch.Outputs
	}
	return result, nil
}

// row validates a claim, fills its defaults and encodes it.
func (s *SQL) row(c Claim) (Claim, *Row, error) {
	c = c.withDefaults()
	if c.Key == "" {
		return c, nil, fmt.Errorf("%w: the key is empty", ErrInvalid)
	}
	if err := s.Validate(c); err != nil {
		return c, nil, err
	}
	return c, &Row{
		Consumer:    c.Consumer,
		Key:         EncodeKey(c.Key),
		Fingerprint: c.Fingerprint,
		Wait:        c.Wait,
		Now:         s.now(),
		Outputs:     c.Outputs,
	}, nil
}

func (s *SQL) now() string {
	if s.options.now == nil {
		return s.dialect.Now(nil)
	}
	now := s.options.now()
	return s.dialect.Now(&now)
}

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// claimMargin is how much longer than the server's own bound we wait for the
// claim's answer before we take the connection for dead.
const claimMargin = 2 * time.Second

// youngClaim is the age up to which a claim may still be on its way to a
// standby. Past it only a standby that was away for so long could lack it.
const youngClaim = time.Hour

// claim begins and claims within the bounds, and reads what went wrong. The
// transaction is open afterwards only when the claim is new.
func (s *SQL) claim(ctx context.Context, t transaction, c Claim, row *Row) (*Standing, error) {
	bounded, cancel := context.WithTimeout(ctx, c.Wait+claimMargin)
	defer cancel()
	standing, err := t.begin(bounded, row)
	if err == nil && standing == nil {
		return nil, nil
	}
	t.abandon()
	if err == nil {
		return standing, nil
	}
	switch {
	case ctx.Err() != nil:
		t.discard() // the driver may have cut the statement off
		return nil, s.cancelled(ctx, err)
	case bounded.Err() != nil && s.dialect.OneWriter():
		// A file is never silent: another process is writing.
		return nil, fmt.Errorf("%w: waited %s: %w", ErrInFlight, c.Wait, err)
	case bounded.Err() != nil:
		t.discard()
		return nil, s.unavailable(fmt.Sprintf("the claim had no answer within %s", c.Wait+claimMargin), err)
	}
	if errors.Is(err, ErrVanished) {
		return nil, &conflictError{err: err}
	}
	switch s.dialect.Fault(err) {
	case FaultConflict:
		return nil, &conflictError{err: err}
	case FaultBusy:
		return nil, &conflictError{err: err, busy: true}
	case FaultLockWait:
		if s.tableLocked(ctx, t, err) {
			return nil, fmt.Errorf("%w by another session, perhaps a migration: %w", ErrTableLocked, err)
		}
		return nil, fmt.Errorf("%w: waited %s: %w", ErrInFlight, c.Wait, err)
	case FaultReadOnly:
		t.discard()
		return nil, fmt.Errorf("%w: the connection was discarded: %w", ErrReadOnly, err)
	case FaultMissing:
		return nil, fmt.Errorf("%w: table %s is missing: run Migrate, or set the prefix and schema that it was run with: %w", ErrSchema, s.names.Claims, err)
	case FaultSettings:
		return nil, s.unavailable("the server's settings forbid the claim", err)
	case FaultConnection:
		t.discard()
	}
	return nil, s.unavailable("claim", err)
}

func (s *SQL) tableLocked(ctx context.Context, t transaction, err error) bool {
	ctx, cancel := context.WithTimeout(ctx, claimMargin)
	defer cancel()
	locked := s.dialect.TableLocked(ctx, t.outside(), s.names, err)
	if ctx.Err() != nil {
		t.discard()
	}
	return locked
}

// duplicate says what a duplicate is of. Nothing was written and no transaction
// is open.
func (s *SQL) duplicate(ctx context.Context, t transaction, c Claim, row *Row, standing *Standing) (Result, error) {
	result := Result{
		Duplicate: true,
		ClaimedAt: time.UnixMicro(standing.ClaimedAtMicros).UTC(),
		// A clock that went back makes an age negative; nothing is younger
		// than new.
		Age: max(0, time.Duration(standing.AgeMicros)*time.Microsecond),
	}
	if standing.Unsafe && result.Age < youngClaim {
		if err := s.settle(ctx, t, c); err != nil {
			return Result{}, err
		}
	}
	if row.Outputs {
		var err error
		if result.Unsent, err = s.unsent(ctx, t, c, row, standing); err != nil {
			return Result{}, err
		}
	}
	if c.Fingerprint != nil && standing.Fingerprint != nil && !bytes.Equal(c.Fingerprint, standing.Fingerprint) {
		return result, &KeyReusedError{Consumer: c.Consumer, Key: c.Key, ClaimedAt: result.ClaimedAt, Age: result.Age}
	}
	return result, nil
}

// unsent are the outputs that a duplicate's claim has left, unless the session
// brought them along.
func (s *SQL) unsent(ctx context.Context, t transaction, c Claim, row *Row, standing *Standing) ([]Output, error) {
	if standing.Asked {
		return standing.Unsent, nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.Wait+claimMargin)
	defer cancel()
	outputs, err := Unsent(bounded, s.dialect, t.outside(), s.names, row)
	if err == nil {
		return outputs, nil
	}
	t.discard()
	return nil, s.cancelled(ctx, s.unavailable("read the outputs that are left of the claim of which this is a duplicate", err))
}

// settle waits until the standing claim is as safe as the database was told to
// keep commits, so that a duplicate is not acked before its effect is safe.
func (s *SQL) settle(ctx context.Context, t transaction, c Claim) error {
	bounded, cancel := context.WithTimeout(ctx, c.Bounds.Commit)
	defer cancel()
	err := s.dialect.Settle(bounded, t.outside())
	if err == nil {
		return nil
	}
	t.discard()
	return s.cancelled(ctx, s.unavailable("wait until the standby has the claim of which this is a duplicate", err))
}

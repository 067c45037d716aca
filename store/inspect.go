package store

import (
	"context"
	"fmt"
	"time"
)

// Verify is [Verifier.Verify]: it checks the schema's version, learns the
// server's limits and looks for settings that weaken the promise.
func (s *SQL) Verify(ctx context.Context) ([]Finding, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	ctx, cancel := context.WithTimeout(ctx, 2*DefaultAcquire)
	defer cancel()
	_, findings, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.checkVersion(ctx); err != nil {
		return nil, err
	}
	return findings, nil
}

// Lookup is [Inspector.Lookup].
func (s *SQL) Lookup(ctx context.Context, consumer, key string) (Found, bool, error) {
	_, row, err := s.row(Claim{Consumer: consumer, Key: key})
	if err != nil {
		return Found{}, false, err
	}
	standing, ok, err := s.dialect.Find(ctx, poolQuerier{s.db}, s.names, row)
	if err != nil {
		return Found{}, false, s.unavailable("look up a claim", err)
	}
	if !ok {
		return Found{}, false, nil
	}
	return Found{
		Consumer: consumer, Key: key, Fingerprint: standing.Fingerprint,
		ClaimedAt: time.UnixMicro(standing.ClaimedAtMicros).UTC(),
		Age:       max(0, time.Duration(standing.AgeMicros)*time.Microsecond),
	}, true, nil
}

// Forget is [Inspector.Forget].
func (s *SQL) Forget(ctx context.Context, consumer, key string) (bool, error) {
	_, row, err := s.row(Claim{Consumer: consumer, Key: key})
	if err != nil {
		return false, err
	}
	var claims int64
	err = s.transact(ctx, fmt.Sprintf("forget the claim of %q by %q", key, consumer), func(ctx context.Context, q Querier) (err error) {
		var args []any
		where := " WHERE " + ofClaim(s.dialect, &args, row)
		// The claim first: an attempt that would make it anew waits for this
		// transaction, so the outputs are only those of the old one.
		if claims, err = q.Exec(ctx, "DELETE FROM "+s.names.Claims+where, args...); err != nil {
			return err
		}
		_, err = q.Exec(ctx, "DELETE FROM "+s.names.Outputs+where, args...)
		return err
	})
	return err == nil && claims > 0, err
}

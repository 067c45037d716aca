package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	// slowBatch halves the batch of a purge, quickBatch lets it grow again.
	slowBatch  = 500 * time.Millisecond
	quickBatch = 100 * time.Millisecond
	// clockSlack is how much further than wall time the database's clock may
	// have gone since the last purge: clocks are set by hand sometimes, but not
	// by an hour.
	clockSlack = time.Hour
	// nearlyAll is the share of all claims that one purge may take when no
	// recent purge vouches for the clock.
	nearlyAll = 0.9
)

// lastPurge is what this process remembers of its last purge, by a clock that
// nobody can set.
type lastPurge struct {
	mu   sync.Mutex
	at   time.Time // monotonic
	dbAt int64
}

// Purge is [Store.Purge].
func (s *SQL) Purge(ctx context.Context, p Purge) (int64, error) {
	if s.invalid != nil {
		return 0, s.invalid
	}
	if p.Retention <= 0 {
		return 0, fmt.Errorf("%w: a retention of %s would delete every claim: it must be positive", ErrInvalid, p.Retention)
	}
	if p.Batch < 0 {
		return 0, fmt.Errorf("%w: a purge batch of %d", ErrInvalid, p.Batch)
	}
	if p.Batch == 0 {
		p.Batch = DefaultPurgeBatch
	}
	var deleted int64
	for size, checked := p.Batch, p.Confirm; ; checked = true {
		if err := s.queue.enter(ctx, ownBound); err != nil {
			return deleted, err
		}
		began := time.Now()
		n, err := s.purgeBatch(ctx, p, size, checked)
		s.queue.leave()
		deleted += n
		if err != nil && !errors.Is(err, ErrPurgeSuspicious) {
			err = s.ownFailed(ctx, "purge", err)
		}
		if err != nil || n < int64(size) {
			return deleted, err
		}
		took := time.Since(began)
		switch {
		case took > slowBatch:
			size = max(1, size/2)
		case took < quickBatch:
			size = min(p.Batch, size*2)
		}
		if err := idle(ctx, took); err != nil {
			return deleted, err
		}
	}
}

// idle leaves the database to others for as long as a batch took.
func idle(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// purgeBatch deletes one batch. It deletes nothing when another purger holds
// the purge's row, so that over all replicas one is at work.
func (s *SQL) purgeBatch(ctx context.Context, p Purge, size int, checked bool) (deleted int64, err error) {
	statements := s.dialect.Purging(s.names)
	err = s.pinned(ctx, func(ctx context.Context, conn *sqlx.Conn) (bool, error) {
		err := s.within(ctx, conn, s.options.level, func(q Querier) error {
			var mark purgeMark
			found, err := q.QueryRow(ctx, fmt.Sprintf(statements.Lock, s.now()), nil, &mark.dbAt, &mark.wallAt, &mark.now)
			if err != nil || !found {
				return err
			}
			cutoff := mark.now - p.Retention.Microseconds()
			if !checked {
				if err := s.suspect(ctx, q, statements, mark, cutoff, p); err != nil {
					return err
				}
			}
			if deleted, err = q.Exec(ctx, fmt.Sprintf(statements.Delete, cutoff, size)); err != nil {
				return err
			}
			return s.record(ctx, q, statements, mark)
		})
		return err == nil, err
	})
	if err != nil {
		deleted = 0 // rolled back
	}
	return deleted, err
}

// purgeMark is what the purge's row remembers, and the database's clock, in
// microseconds since 1970.
type purgeMark struct{ dbAt, wallAt, now int64 }

// record remembers this purge. The mark never goes back, so that a clock which
// went back and comes again has not jumped forward in between.
func (s *SQL) record(ctx context.Context, q Querier, statements Purging, mark purgeMark) error {
	if mark.now >= mark.dbAt {
		if _, err := q.Exec(ctx, fmt.Sprintf(statements.Record, mark.now, time.Now().UnixMicro())); err != nil {
			return err
		}
	}
	s.purged.mu.Lock()
	defer s.purged.mu.Unlock()
	s.purged.at, s.purged.dbAt = time.Now(), mark.now
	return nil
}

// suspect stops a purge whose clock cannot be right. The database's clock is
// one clock, and once it is days ahead every claim looks expired.
func (s *SQL) suspect(ctx context.Context, q Querier, statements Purging, mark purgeMark, cutoff int64, p Purge) error {
	elapsed, vouched := s.elapsed(mark)
	advanced := time.Duration(mark.now-mark.dbAt) * time.Microsecond
	if mark.dbAt > 0 && advanced > elapsed+clockSlack {
		return fmt.Errorf("%w: the database's clock went %s forward while %s passed since the last purge; "+
			"check the clock of the database's machine, then purge once with Confirm", ErrPurgeSuspicious, advanced.Round(time.Second), elapsed.Round(time.Second))
	}
	if vouched {
		return nil
	}
	var expired, all int64
	if _, err := q.QueryRow(ctx, fmt.Sprintf(statements.Expired, cutoff), nil, &expired, &all); err != nil {
		return err
	}
	if expired > int64(p.Batch) && float64(expired) > nearlyAll*float64(all) {
		return fmt.Errorf("%w: %d of %d claims are older than %s, and no recent purge vouches for the database's clock; "+
			"check the clock and the retention, then purge once with Confirm", ErrPurgeSuspicious, expired, all, p.Retention)
	}
	return nil
}

// elapsed returns how much time passed since the last purge, and whether that
// is recent enough to vouch for the clock: then few claims can have expired
// since. This process's own memory goes by a clock that nobody can set.
func (s *SQL) elapsed(mark purgeMark) (elapsed time.Duration, vouched bool) {
	s.purged.mu.Lock()
	defer s.purged.mu.Unlock()
	if !s.purged.at.IsZero() && s.purged.dbAt <= mark.dbAt {
		// Another process may have purged since; then less time passed.
		since := time.Since(s.purged.at) - time.Duration(mark.dbAt-s.purged.dbAt)*time.Microsecond
		return max(0, since), true
	}
	since := time.Since(time.UnixMicro(mark.wallAt))
	return max(0, since), mark.dbAt > 0 && since < clockSlack
}

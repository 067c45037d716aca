package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// markBatch is how many outputs one statement deletes or changes.
	markBatch = 1000
	// maxReason is how many bytes of a failure's reason are kept.
	maxReason = 1 << 10
)

// MarkSent is [Outbox.MarkSent].
func (s *SQL) MarkSent(ctx context.Context, ids ...OutputID) error {
	// Sorted, so that two that mark the same outputs do not deadlock.
	for chunk := range slices.Chunk(slices.Sorted(slices.Values(ids)), markBatch) {
		if _, err := s.change(ctx, "mark outputs as sent", func(args *[]any) string {
			return "DELETE FROM " + s.names.Outputs + " WHERE " + s.dialect.InIDs(args, chunk)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Postpone is [Outbox.Postpone].
func (s *SQL) Postpone(ctx context.Context, failures ...Failure) error {
	for _, f := range failures {
		if f.After < 0 {
			return fmt.Errorf("%w: output %d is postponed by %s: it must not be negative", ErrInvalid, f.ID, f.After)
		}
	}
	for _, group := range alike(failures) {
		for chunk := range slices.Chunk(group.ids, markBatch) {
			if _, err := s.change(ctx, "postpone outputs", func(args *[]any) string {
				return s.postpone(args, group.Failure, chunk)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// postpone is the statement for outputs that failed alike.
func (s *SQL) postpone(args *[]any, f Failure, ids []OutputID) string {
	now := s.now()
	set := "lease_until = " + s.dialect.Later(now, s.dialect.Bind(args, f.After.Microseconds()))
	if f.Counted {
		set += ", attempts = attempts + 1"
	}
	if f.Dead {
		set += ", dead_at = COALESCE(dead_at, " + now + ")"
	}
	if f.Reason != "" {
		set += ", reason = " + s.dialect.Bind(args, []byte(f.Reason))
	}
	return "UPDATE " + s.names.Outputs + " SET " + set + " WHERE " + s.dialect.InIDs(args, ids)
}

// failed is what happened alike to several outputs.
type failed struct {
	Failure // without an id
	ids     []OutputID
}

// alike groups failures, because those of one outage are the same.
func alike(failures []Failure) []*failed {
	var groups []*failed
	found := map[Failure]*failed{}
	for _, f := range failures {
		id := f.ID
		f.ID, f.Reason = 0, clip(f.Reason)
		group := found[f]
		if group == nil {
			group = &failed{Failure: f}
			found[f] = group
			groups = append(groups, group)
		}
		group.ids = append(group.ids, id)
	}
	for _, group := range groups {
		slices.Sort(group.ids)
	}
	return groups
}

// clip cuts a reason to what every database takes: valid UTF-8 without NUL, at
// most [maxReason] bytes, no rune cut in two.
func clip(reason string) string {
	reason = strings.ToValidUTF8(reason[:min(len(reason), 2*maxReason)], string(utf8.RuneError))
	reason = strings.ReplaceAll(reason, "\x00", "")
	end := min(len(reason), maxReason)
	for end < len(reason) && end > 0 && !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// change runs one statement on outputs in a transaction of its own.
func (s *SQL) change(ctx context.Context, what string, statement func(args *[]any) string) (affected int64, err error) {
	err = s.transact(ctx, what, func(ctx context.Context, q Querier) (err error) {
		var args []any
		text := statement(&args)
		affected, err = q.Exec(ctx, text, args...)
		return err
	})
	return affected, err
}

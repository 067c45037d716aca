package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Backlog is [OutboxInspector.Backlog].
func (s *SQL) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	var oldest int64
	from := " FROM " + s.names.Outputs + " WHERE dead_at IS "
	query := "SELECT (SELECT COUNT(*)" + from + "NULL), (SELECT COUNT(*)" + from + "NOT NULL), " +
		s.dialect.Micros(s.now()) + " - (SELECT " + s.dialect.Micros("MIN(created_at)") + from + "NULL)"
	err := s.asked(ctx, "count outputs", func(ctx context.Context, q Querier) error {
		_, err := q.QueryRow(ctx, query, nil, &b.Unsent, &b.Dead, &oldest)
		return err
	})
	if err != nil {
		return Backlog{}, err
	}
	b.Oldest = max(0, time.Duration(oldest)*time.Microsecond)
	return b, nil
}

// DeadOutputs is [OutboxInspector.DeadOutputs].
func (s *SQL) DeadOutputs(ctx context.Context, limit int) ([]DeadOutput, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: a limit of %d dead outputs: it must be positive", ErrInvalid, limit)
	}
	var (
		args   []any
		r      OutputRow
		died   int64
		reason string
		dead   []DeadOutput
	)
	none := s.dialect.Bind(&args, []byte{})
	query := "SELECT " + outputColumns + ", " + s.dialect.Micros("dead_at") + ", COALESCE(reason, " + none + ") FROM " + s.names.Outputs +
		" WHERE dead_at IS NOT NULL ORDER BY dead_at, id LIMIT " + s.dialect.Bind(&args, int64(limit))
	err := s.asked(ctx, "list dead outputs", func(ctx context.Context, q Querier) error {
		dead = nil
		return q.QueryRows(ctx, query, args, append(r.Dest(), &died, &reason), func() error {
			o, _ := r.Output() // it may be dead because its metadata is
			dead = append(dead, DeadOutput{Output: o, DiedAt: time.UnixMicro(died).UTC(), Reason: reason})
			return nil
		})
	})
	return dead, err
}

// ReviveOutputs is [OutboxInspector.ReviveOutputs].
func (s *SQL) ReviveOutputs(ctx context.Context, ids ...OutputID) (int64, error) {
	revive := "UPDATE " + s.names.Outputs + " SET dead_at = NULL, lease_until = NULL, attempts = 0 WHERE dead_at IS NOT NULL"
	if len(ids) == 0 {
		return s.change(ctx, "revive outputs", func(*[]any) string { return revive })
	}
	return s.changeDead(ctx, "revive outputs", revive, ids)
}

// DropOutputs is [OutboxInspector.DropOutputs].
func (s *SQL) DropOutputs(ctx context.Context, ids ...OutputID) (int64, error) {
	return s.changeDead(ctx, "drop outputs", "DELETE FROM "+s.names.Outputs+" WHERE dead_at IS NOT NULL", ids)
}

// changeDead runs a statement for ids, and returns how many it changed, also
// when it fails half-way.
func (s *SQL) changeDead(ctx context.Context, what, statement string, ids []OutputID) (changed int64, err error) {
	for chunk := range slices.Chunk(slices.Sorted(slices.Values(ids)), markBatch) {
		n, err := s.change(ctx, what, func(args *[]any) string {
			return statement + " AND " + s.dialect.InIDs(args, chunk)
		})
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// LeaseUnsent is [Outbox.LeaseUnsent]. Outputs are found by their state: an id,
// or a time, up to which all were seen would pass by one that commits late.
func (s *SQL) LeaseUnsent(ctx context.Context, l Lease) ([]Output, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, err
	}
	var outputs []Output
	var bad []Failure
	err = s.transact(ctx, "lease outputs", func(ctx context.Context, q Querier) error {
		outputs, bad = nil, nil // of a try before
		ids, err := s.choose(ctx, q, l)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := s.lease(ctx, q, ids, l); err != nil {
			return err
		}
		var args []any
		query := "SELECT " + outputColumns + " FROM " + s.names.Outputs + " WHERE " + s.dialect.InIDs(&args, ids)
		outputs, err = readOutputs(ctx, q, query, args, func(id OutputID) {
			bad = append(bad, Failure{ID: id, Dead: true, Reason: "its metadata cannot be read: " + ErrMetadata.Error()})
		})
		inOrder(outputs, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A bad row never stops the good ones: if it cannot be buried now, then when
	// its lease is over.
	_ = s.Postpone(ctx, bad...)
	return outputs, nil
}

// choose locks the oldest outputs that may be leased, and returns those that
// fit. The others are free again with the end of the transaction.
func (s *SQL) choose(ctx context.Context, q Querier, l Lease) (ids []OutputID, err error) {
	if hint := s.dialect.ByIndex(); hint != "" {
		if _, err := q.Exec(ctx, hint); err != nil {
			return nil, err
		}
	}
	var args []any
	now := s.now()
	// In a subselect PostgreSQL asks its clock once, and may use the index.
	old := "(SELECT " + s.dialect.Later(now, s.dialect.Bind(&args, -l.Older.Microseconds())) + ")"
	query := "SELECT id, size FROM " + s.names.Outputs +
		" WHERE dead_at IS NULL AND created_at <= " + old + " AND (lease_until IS NULL OR lease_until <= " + now + ")" +
		s.ofServices(&args, l.Services) +
		" ORDER BY created_at, id LIMIT " + s.dialect.Bind(&args, int64(l.Limit)) + s.dialect.SkipLocked()
	var id, size, sum int64
	full := false
	err = q.QueryRows(ctx, query, args, []any{&id, &size}, func() error {
		// One that does not fit is the first of the next lease.
		if sum += size; full || sum > l.Bytes && len(ids) > 0 {
			full = true
			return nil
		}
		ids = append(ids, OutputID(id))
		return nil
	})
	return ids, err
}

// ofServices is the condition for consumers "service/…". The column compares
// byte by byte, and "0" is what follows "/". COALESCE keeps the planner from the
// index by consumer, which would have it sort all outputs for each lease.
func (s *SQL) ofServices(args *[]any, services []string) string {
	if len(services) == 0 {
		return ""
	}
	ranges := make([]string, len(services))
	for i, service := range services {
		ranges[i] = "COALESCE(consumer, '') >= " + s.dialect.Bind(args, service+"/") + " AND COALESCE(consumer, '') < " + s.dialect.Bind(args, service+"0")
	}
	return " AND (" + strings.Join(ranges, " OR ") + ")"
}

func (s *SQL) lease(ctx context.Context, q Querier, ids []OutputID, l Lease) error {
	var args []any
	until := s.dialect.Later(s.now(), s.dialect.Bind(&args, l.For.Microseconds()))
	_, err := q.Exec(ctx, "UPDATE "+s.names.Outputs+" SET lease_until = "+until+" WHERE "+s.dialect.InIDs(&args, ids), args...)
	return err
}

// inOrder sorts outputs as their ids are.
func inOrder(outputs []Output, ids []OutputID) {
	place := make(map[OutputID]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(outputs, func(a, b Output) int { return place[a.ID] - place[b.ID] })
}

// withDefaults fills what is zero and refuses what cannot be.
func (l Lease) withDefaults() (Lease, error) {
	switch {
	case l.For <= 0:
		return l, fmt.Errorf("%w: a lease for %s: it must be positive", ErrInvalid, l.For)
	case l.Limit < 0, l.Bytes < 0, l.Older < 0:
		return l, fmt.Errorf("%w: a lease of %d outputs, %d bytes, older than %s: none may be negative", ErrInvalid, l.Limit, l.Bytes, l.Older)
	}
	if l.Limit == 0 {
		l.Limit = DefaultLeaseLimit
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultLeaseBytes
	}
	return l, nil
}

package store

import (
	"context"
	"errors"
)

// MarkSent is [Outbox.MarkSent].
func (s *SQL) MarkSent(context.Context, ...OutputID) error { return errors.ErrUnsupported }

// LeaseUnsent is [Outbox.LeaseUnsent].
func (s *SQL) LeaseUnsent(context.Context, Lease) ([]Output, error) {
	return nil, errors.ErrUnsupported
}

// Postpone is [Outbox.Postpone].
func (s *SQL) Postpone(context.Context, ...Failure) error { return errors.ErrUnsupported }

// Backlog is [OutboxInspector.Backlog].
func (s *SQL) Backlog(context.Context) (Backlog, error) { return Backlog{}, errors.ErrUnsupported }

// DeadOutputs is [OutboxInspector.DeadOutputs].
func (s *SQL) DeadOutputs(context.Context, int) ([]DeadOutput, error) {
	return nil, errors.ErrUnsupported
}

// ReviveOutputs is [OutboxInspector.ReviveOutputs].
func (s *SQL) ReviveOutputs(context.Context, ...OutputID) (int64, error) {
	return 0, errors.ErrUnsupported
}

// DropOutputs is [OutboxInspector.DropOutputs].
func (s *SQL) DropOutputs(context.Context, ...OutputID) (int64, error) {
	return 0, errors.ErrUnsupported
}

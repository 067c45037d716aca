package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/watermill-once/watermill-once/store"
)

// Backlog counts the stored outputs: those that will be sent and how old the
// oldest is, and those that were given up on. It is for a metric and an alarm.
// Handlers' outputs are part of it for the moment between commit and sending.
//
// The error of this and the following methods is errors.ErrUnsupported when the
// store cannot do it.
func (g *Guard) Backlog(ctx context.Context) (store.Backlog, error) {
	o, err := g.outbox()
	if err != nil {
		return store.Backlog{}, err
	}
	return o.Backlog(ctx)
}

// DeadOutputs lists at most limit outputs that the relay gave up on, the oldest
// first, with the reason. They are kept until somebody decides about them.
func (g *Guard) DeadOutputs(ctx context.Context, limit int) ([]store.DeadOutput, error) {
	o, err := g.outbox()
	if err != nil {
		return nil, err
	}
	return o.DeadOutputs(ctx, limit)
}

// ReviveOutputs lets the relay send dead outputs again, all of them when no id
// is given, and returns how many there were.
func (g *Guard) ReviveOutputs(ctx context.Context, ids ...store.OutputID) (int64, error) {
	o, err := g.outbox()
	if err != nil {
		return 0, err
	}
	return o.ReviveOutputs(ctx, ids...)
}

// DropOutputs deletes dead outputs, which are never sent then, and returns how
// many there were. Without ids it does nothing.
func (g *Guard) DropOutputs(ctx context.Context, ids ...store.OutputID) (int64, error) {
	o, err := g.outbox()
	if err != nil {
		return 0, err
	}
	return o.DropOutputs(ctx, ids...)
}

func (g *Guard) outbox() (store.OutboxInspector, error) {
	o, ok := g.store.(store.OutboxInspector)
	if !ok {
		return nil, fmt.Errorf("the store %T cannot show outputs: %w", g.store, errors.ErrUnsupported)
	}
	return o, nil
}

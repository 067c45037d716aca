//go:build integration

package oncecqrs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
)

// deadlockOnce fails the first time as a deadlock does, but for its end of the
// transaction.
func (s *service) deadlockOnce() func(ctx context.Context) error {
	statement := map[string]string{
		"pgx":   `DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`,
		"mysql": `SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'deadlock'`,
	}[s.store.DB().DriverName()]
	var runs atomic.Int32
	return func(ctx context.Context) error {
		if runs.Add(1) > 1 {
			return nil
		}
		tx, err := once.Tx(ctx)
		if err == nil {
			_, err = tx.ExecContext(ctx, statement)
		}
		return err
	}
}

// With the wrapper and without: a statement that failed is not hidden from the
// guarded connection.
func TestW09_ADeadlockIsNacked(t *testing.T) {
	t.Parallel()
	for _, k := range serverStores() {
		for name, on := range map[string]cqrs.CommandProcessorOnHandleFn{"with": oncecqrs.OnCommand(nil), "without": nil} {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newService(t, k.open(t), once.Config{})
				deadlock := s.deadlockOnce()
				s.commands(ackErrors(on), cqrs.NewCommandHandler("place", func(ctx context.Context, cmd *placeOrder) error {
					return errors.Join(write(ctx, cmd.ID), deadlock(ctx))
				}))
				s.run()
				s.deliver("c1", placeOrder{"1"})
				s.wantOutcomes("place", once.RolledBack, once.Processed)
				s.wantEffects("1")
			})
		}
	}
}

// A deadlock that both servers would let a savepoint undo is answered by nobody,
// also when the handler calls it by another name: the command comes again and
// succeeds.
func TestNewCommandHandler_ADeadlockIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, k := range serverStores() {
		for _, name := range []string{"returned", "renamed"} {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newService(t, k.open(t), once.Config{})
				deadlock := s.deadlockOnce()
				s.answersOnce(func(ctx context.Context, cmd *placeOrder) (receipt, error) {
					err := errors.Join(write(ctx, cmd.ID), deadlock(ctx))
					if err != nil && name == "renamed" {
						err = errBusiness
					}
					return receipt{}, err
				})
				s.run()
				s.request("c1", "op1", "1")
				s.wantOutcomes("pay", once.RolledBack, once.Processed)
				s.wantReplies([2]string{"op1", ""})
				s.wantEffects("1")
			})
		}
	}
}

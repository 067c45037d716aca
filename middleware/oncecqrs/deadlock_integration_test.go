//go:build integration

package oncecqrs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
)

// A deadlock that both servers would let a savepoint undo is answered by nobody:
// the command comes again and succeeds.
func TestUndoOnError_ADeadlockIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, k := range serverStores() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, k.open(t), once.Config{})
			fail := map[string]string{
				"pgx":   `DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`,
				"mysql": `SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'deadlock'`,
			}[s.store.DB().DriverName()]
			var runs atomic.Int32
			s.answers(s.backend(ackErrorReplies), oncecqrs.UndoOnErrorWithResult(func(ctx context.Context, cmd *placeOrder) (receipt, error) {
				err := write(ctx, cmd.ID)
				if runs.Add(1) == 1 {
					tx, noTx := once.Tx(ctx)
					if noTx != nil {
						return receipt{}, noTx
					}
					_, failed := tx.ExecContext(ctx, fail)
					err = errors.Join(err, failed)
				}
				return receipt{}, err
			}))
			s.run()
			s.request("c1", "op1", "1")
			s.wantOutcomes("pay", once.RolledBack, once.Processed)
			s.wantReplies([2]string{"op1", ""})
			s.wantEffects("1")
		})
	}
}

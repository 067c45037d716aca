package oncecqrs

import (
	"context"

	once "github.com/watermill-once/watermill-once/middleware"
)

// UndoOnError makes a failure an answer: when handle returns an error, what it
// wrote and published is undone, the error is returned as it is, and the
// attempt can commit. It is for request-reply with AckCommandErrors, whose
// backend sends the error as the reply and then returns nil:
//
//	requestreply.NewCommandHandler("pay", backend, oncecqrs.UndoOnError(pay))
//
// Without it the half of the work that was done before the error commits
// together with the reply that says it failed; [OnCommand] does not help, since
// it gets nil too. With it the claim and the reply commit and nothing else, so
// that a duplicate of the command sends the same reply or none, and never tries
// again what was answered.
//
// Two kinds of error are no answer: everything is rolled back, the reply too,
// the message is nacked, and the command comes again.
//
//   - A transient one ([once.IsTransient]).
//   - One after a statement that failed, such as a deadlock. The guard judges it
//     as everywhere: transient or the handler's. For a statement whose failure
//     is an answer, such as a unique index that is hit, handle uses a
//     [once.Savepoint] of its own.
//
// handle runs behind a savepoint, which is two statements more, and a third when
// it fails. Outside of an attempt the error is [once.ErrNoTx].
func UndoOnError[Command any](handle func(context.Context, *Command) error) func(context.Context, *Command) error {
	return func(ctx context.Context, cmd *Command) error {
		return undoOnError(ctx, func(ctx context.Context) error { return handle(ctx, cmd) })
	}
}

// UndoOnErrorWithResult is [UndoOnError] for a handler with a result:
//
//	requestreply.NewCommandHandlerWithResult("pay", backend, oncecqrs.UndoOnErrorWithResult(pay))
//
// The result is returned beside the error as handle returned it.
func UndoOnErrorWithResult[Command, Result any](
	handle func(context.Context, *Command) (Result, error),
) func(context.Context, *Command) (Result, error) {
	return func(ctx context.Context, cmd *Command) (result Result, err error) {
		err = undoOnError(ctx, func(ctx context.Context) error {
			result, err = handle(ctx, cmd)
			return err
		})
		return result, err
	}
}

// undoOnError leaves a transaction that a failed statement has doomed as it is.
// To roll back to the savepoint would forgive a deadlock, and only the store can
// tell one from a failure that is the command's.
func undoOnError(ctx context.Context, fn func(ctx context.Context) error) error {
	var failed error
	err := once.Savepoint(ctx, func(ctx context.Context) error {
		if failed = fn(ctx); failed != nil && doomed(ctx) {
			return nil
		}
		return failed
	})
	if once.IsTransient(failed) {
		_ = once.Report(ctx, failed)
	}
	if failed != nil {
		return failed
	}
	return err
}

// doomed asks with a statement, which a doomed transaction does not send.
func doomed(ctx context.Context) bool {
	tx, err := once.Tx(ctx)
	if err == nil {
		_, err = tx.ExecContext(ctx, `SELECT 1`)
	}
	return err != nil
}

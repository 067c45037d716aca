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
// A transient error ([once.IsTransient]), such as a deadlock, is no answer: it
// is reported to the guard, so that everything is rolled back, the reply too,
// and the command comes again.
//
// handle runs behind a [once.Savepoint], which is two statements more. Outside
// of an attempt the error is [once.ErrNoTx].
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

func undoOnError(ctx context.Context, fn func(ctx context.Context) error) error {
	err := once.Savepoint(ctx, fn)
	if once.IsTransient(err) {
		return once.Report(ctx, err)
	}
	return err
}

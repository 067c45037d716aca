package oncecqrs

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// NewCommandHandler is requestreply.NewCommandHandler for a backend with
// AckCommandErrors: one that answers a failure and then takes the command for
// done. Its publisher has to be the guard's.
//
// With Watermill's own the half of the work that was done before the error
// commits together with the reply that says it failed; [OnCommand] does not
// help, since it gets nil too. Here handle runs behind a [once.Savepoint], so
// that when it fails, what it wrote and published is undone and only the claim
// and the reply commit. A duplicate of the command sends the same reply or none,
// and never tries again what was answered.
//
// Two kinds of error are no answer. They are returned to the guard instead, which
// rolls back and has the command come again, as with every other handler:
//
//   - A transient one ([once.IsTransient]).
//   - One after a statement that failed, because that may have been a deadlock.
//     For a statement whose failure is an answer, such as a unique index that is
//     hit, handle uses a savepoint of its own.
//
// It costs two statements more, and a third when handle fails. Outside of an
// attempt the error is [once.ErrNoTx], and there is no answer.
func NewCommandHandler[Command any](
	handlerName string,
	backend requestreply.Backend[requestreply.NoResult],
	handle func(ctx context.Context, cmd *Command) error,
) cqrs.CommandHandler {
	return NewCommandHandlerWithResult(handlerName, backend, func(ctx context.Context, cmd *Command) (requestreply.NoResult, error) {
		return requestreply.NoResult{}, handle(ctx, cmd)
	})
}

// NewCommandHandlerWithResult is [NewCommandHandler] for a handler with a
// result, which is in the reply beside the error as handle returned it.
func NewCommandHandlerWithResult[Command, Result any](
	handlerName string,
	backend requestreply.Backend[Result],
	handle func(ctx context.Context, cmd *Command) (Result, error),
) cqrs.CommandHandler {
	return cqrs.NewCommandHandler(handlerName, func(ctx context.Context, cmd *Command) error {
		msg := cqrs.OriginalMessageFromCtx(ctx)
		if msg == nil {
			return errors.New("the context does not carry the command's message: the handler belongs in a cqrs.CommandProcessor, whose context is to be passed on")
		}
		var result Result
		failed, err := undoOnError(ctx, func(ctx context.Context) (err error) {
			result, err = handle(ctx, cmd)
			return err
		})
		if err != nil {
			return err
		}
		return backend.OnCommandProcessed(ctx, requestreply.BackendOnCommandProcessedParams[Result]{
			Command:        cmd,
			CommandMessage: msg,
			HandlerResult:  result,
			HandleErr:      failed,
		})
	})
}

// undoOnError runs fn behind a savepoint. It returns fn's error as failed when
// that is an answer, and else as err.
func undoOnError(ctx context.Context, fn func(ctx context.Context) error) (failed, err error) {
	var doom error
	err = once.Savepoint(ctx, func(ctx context.Context) error {
		if failed = fn(ctx); failed != nil {
			doom = doomOf(ctx)
		}
		return failed
	})
	switch {
	case failed == nil || once.IsTransient(failed):
		return nil, err
	case doom != nil: // it was forgiven just now, so the guard has to be told
		return nil, fmt.Errorf("%w (an earlier statement failed: %w)", err, doom)
	default: // if it could not be undone, the commit is refused
		return failed, nil
	}
}

// doomOf returns the failed statement that doomed the transaction. It asks with
// a statement, which a doomed transaction does not send.
func doomOf(ctx context.Context) error {
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `SELECT 1`)
	if doom, ok := errors.AsType[*store.DoomedError](err); ok {
		return doom.First
	}
	return err
}

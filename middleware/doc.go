// Package once gives a Watermill handler exactly-once effects: however often a
// broker delivers a message, the handler's writes are committed once.
//
// A [Guard] is a middleware. For each message it inserts a claim, the row
// (consumer, key), as the first statement of a transaction, runs the handler
// in that transaction, commits, and only then lets Watermill acknowledge. A
// message that was claimed before is a duplicate: the handler does not run and
// the message is acknowledged. Whatever goes wrong before the commit rolls
// claim and writes back together, so that the redelivery runs the handler
// again.
//
//	guard, err := once.New(postgres.New(db), once.Config{Service: "billing"})
//	if err != nil { … }
//	defer guard.Close(ctx)
//	router.AddPlugin(guard.Plugin)
//
//	func charge(msg *message.Message) error {
//		tx, err := once.Tx(msg.Context())
//		if err != nil {
//			return err
//		}
//		_, err = tx.ExecContext(msg.Context(), `UPDATE accounts SET …`)
//		return err
//	}
//
// # What a handler may do
//
// Everything that it writes has to go through the transaction of [Tx]. What it
// writes through the pool, or anywhere else, is not undone when the attempt
// fails and not prevented when the message comes again. [Savepoint] is the way
// to try a statement that may fail; [AfterCommit] is for what must only happen
// once the writes are durable; [ErrSkip] says that the message is not for this
// handler.
//
// # What a handler sends
//
// Messages that a handler returns, and those that it publishes through
// [Guard.Publisher], are stored in the claim's transaction and sent after the
// commit, at least once and always the same; what a crash leaves unsent is sent
// by the duplicate or by the guard's relay ([Guard.Relay], [Guard.Backlog],
// [Guard.DeadOutputs]).
//
// # Where the guard belongs
//
// Innermost, with everything that repeats, hides or rescues errors outside:
//
//	recoverer → poison queue (filtered by [Poison]) → retry → recoverer → guard → timeout → handler
//
// [Guard.Plugin] puts it there for all middlewares that were registered before
// Run. A retry inside the guard would repeat the handler in one transaction, a
// poison queue inside would commit half-done work: both are found and refused
// with [ErrChain]. Watermill's Retry needs ResetContextOnRetry when a Timeout
// stands between it and the guard.
//
// Let message.RouterConfig.CloseTimeout be longer than [Config.Drain], and
// close in this order: the guard, the router, the database.
//
// # What the broker is told
//
// A nil error acknowledges, any other has the message delivered again. Before
// the guard returns an error it backs off, so that a failing message does not
// turn into a storm. Errors come in three classes: permanent ([IsPermanent]),
// transient ([IsTransient]), which are never the message's fault, and those of
// the handler. [Outcome] lists how an attempt can end.
//
// # What lives here, and what must not
//
// Here: the guard, keys, fingerprints, the transaction's life in the context,
// events. Claims and SQL are the store's; brokers, configuration files and the
// order of a chain are the router's. This package imports no driver and no
// broker client, and a test keeps it so.
package once

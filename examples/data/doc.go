// Package data shows how handlers reach the database through the claim's
// transaction, each with another library. The handler is the same every time: a
// transfer debits one account, credits another, notes it in a ledger, and tries
// to redeem a voucher in a nested transaction that may fail and is undone then.
// The tests prove each on SQLite, PostgreSQL and MariaDB.
//
//	library             onto the transaction                      nested transaction
//	sqlx                once.Tx(ctx)                              once.Savepoint
//	sqlc                pgbank.New(tx)                            once.Savepoint
//	sqlc, prepared      pgprepared.Prepare(ctx, store.Preparer()) once.Savepoint
//	                    once, then prepared.WithTx(tx.Tx)
//	squirrel            StatementBuilder.RunWith(tx)              once.Savepoint
//	GORM                GORMOn: a session with its ConnPool set   db.Transaction
//	ent                 EntOn: a driver whose Tx is a savepoint   client.Tx
//	bun                 BunOn: NewInsert().Conn(tx) and so on     once.Savepoint
//	pgx: COPY, batches  postgres.Raw                              once.Savepoint around Raw
//	sqlc for pgx/v5     pgxbank.New(conn) in postgres.Raw         once.Savepoint around Raw
//
// once.Savepoint works with all of them, and functions that were given to
// once.AfterCommit in it are dropped with it. A library's own nested transaction
// knows nothing of those.
//
// # Pitfalls
//
//   - All of them: what fails before anything is sent (a builder's error, a hook, a
//     Scan into the wrong type, a context that had ended) does not doom, because
//     the transaction never heard of it. Return every error.
//   - All of them: the application's own handle is still there. What goes through
//     it (a query of bun without Conn, GORM's db instead of the session) is not in
//     the transaction, and no one can tell. On SQLite such a write waits for the
//     claim's transaction until it gives up.
//   - sqlc, prepared on the application's pool: database/sql refuses the
//     statements ("statement from different database used"), unless the store was
//     made with store.Direct(). They are prepared again in each attempt, so
//     a handler that runs each once gains nothing.
//   - squirrel: choose the placeholders (sq.Dollar for PostgreSQL); RunWith of an
//     outer scope must not be a pool. Its makers call it complete: bugs are
//     mended, features are not added.
//   - GORM: Commit and Rollback of the session are the claim's, and refused.
//     PrepareStmt gains nothing on a transaction.
//   - GORM on the *sql.Tx itself, without gormTx: a nested transaction whose context
//     ended is not undone, and nobody says so.
//   - GORM opened on the transaction, for each message: parses the models again
//     and asks MariaDB and SQLite for their version. With PrepareStmt it fails
//     (gorm.ErrInvalidDB) and leaves a goroutine behind. When it fails otherwise it
//     closes the pool below, which it finds by reflection: the store opens another,
//     but what was prepared on the old one (store.Preparer()) is refused.
//   - ent: UpdateOne, and creating with edges, begin by themselves, so each costs
//     a SAVEPOINT and a RELEASE; Update().Where(…) does not.
//   - ent on entsql.NewDriver alone: client.Tx panics on a *sql.Tx. On
//     dialect.NopTx its Rollback undoes nothing.
//   - bun: RunInTx begins on its own pool, outside of the claim. Made over
//     store.Preparer().DB, it is refused.
//   - pgx: Begin on the raw connection has a Commit that is COMMIT. It ends the
//     claim's transaction; the attempt fails loudly, but what was written stays.
//
// The table is short in docs/databases.md too.
package data

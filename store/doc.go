// Package store keeps claims: rows (consumer, key) that say "this consumer's
// writes for this message are committed".
//
// What lives here is the contract that the guard builds on ([Store]), and one
// SQL engine that fulfils it over an application's own sqlx pool ([SQL]). What
// differs between databases is a [Dialect] and lives in the packages postgres,
// mysql and sqlite below this one; how a handler's transaction is kept from
// lying lives in internal/guarded; what tests share lives in storetest.
//
// A service needs little of it: New or Open of a dialect's package, [SQL.Migrate]
// or [SQL.Script], options such as [WithPrefix], and the errors. Who writes a
// store of their own needs [Store] and [Outbox], and package storetest. [Dialect],
// [Session], [Querier] and what they speak of are between the engine and its
// dialects, and may change in any version.
//
// What must not come here: Watermill, a database driver, anything about
// brokers. A test over the import graph keeps it so.
package store

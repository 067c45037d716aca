// Package storetest holds a store to its contract, and has what tests around a
// store share.
//
// [Run] is the suite that every dialect runs: a [Setup] says how to reach the
// database, its Make returns the [Harness] for Run, and the TestMain of the
// package calls [Child]. [RunStore] is the part of it for any other
// store.Store.
//
// Besides, it holds the wire proxy ([Wire]), which sees each statement that a
// driver sends to a real PostgreSQL, MariaDB or MySQL server, counts round trips
// and puts faults in at a chosen statement; a driver that lies ([Stub]); fixtures for real servers
// ([Address], [FreshSchema], [WireTo]); and helpers that wait for a server or
// look at a pool afterwards ([Eventually], [PoolIdle]).
//
// It imports the standard library and sqlx, and no driver: the tests bring
// their own. It is for tests only; nothing that runs in production may import
// it.
package storetest

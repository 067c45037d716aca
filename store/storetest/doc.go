// Package storetest is what tests around a store share.
//
// It holds the wire proxy ([Wire]), which sees each statement that a driver
// sends to a real PostgreSQL, MariaDB or MySQL server, counts round trips and
// puts faults in at a chosen statement; fixtures for real servers
// ([Address], [FreshSchema], [WireTo]); and helpers that wait for a server or
// look at a pool afterwards ([Eventually], [PoolIdle]).
//
// It imports the standard library and sqlx, and no driver: the tests bring
// their own. It is for tests only; nothing that runs in production may import
// it.
package storetest

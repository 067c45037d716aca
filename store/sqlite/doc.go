// Package sqlite is the store's dialect for SQLite 3.42 and later, over a pool
// of modernc.org/sqlite (driver name "sqlite"): pure Go, for tests, tools and
// services on one machine.
//
// SQLite has one writer for the whole file, so attempts wait in line; and a
// busy file cannot tell a copy of a message in flight from any other handler
// at work: both end as store.ErrInFlight once the wait is over.
package sqlite

// Package postgres is the store's dialect for PostgreSQL 15 and later, over a
// pool of pgx (driver name "pgx") or lib/pq ("postgres").
//
// On pgx, BEGIN and the claim travel in one round trip, also on a pool made by
// stdlib.OpenDBFromPool. Any other connection (lib/pq, an instrumented pool)
// takes a plain BEGIN and keeps every other guarantee. Behind pgbouncer in
// transaction mode pgx needs default_query_exec_mode=exec, simple_protocol,
// cache_describe or describe_exec; see docs/databases.md.
package postgres

// Package guarded lends one driver connection of an application's pool to one
// attempt, and gives the attempt's handler an ordinary *sql.Tx that cannot lie:
// whatever failed and was not undone can no longer be committed.
//
// What lives here knows database/sql's driver interfaces and nothing of
// claims, dialects or Watermill. docs/decisions.md §2 has the shape.
package guarded

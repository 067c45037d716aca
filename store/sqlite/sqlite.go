package sqlite

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/watermill-once/watermill-once/store"
)

// New returns the store over an application's own pool, which it never closes.
// The pool should use WAL with synchronous=FULL. A pool over ":memory:" must
// have exactly one connection, because each has a database of its own.
func New(db *sqlx.DB, opts ...store.Option) *store.SQL {
	return store.NewSQL(db, dialect{}, opts...)
}

// Open returns the store over a pool of its own on a file, which is created if
// missing: WAL, synchronous=FULL, foreign keys on, a busy timeout of 5 s and
// immediate transactions, unless path has parameters ("app.db?_pragma=…") that
// say otherwise. ":memory:" gets a pool of one connection.
// [store.SQL.Close] closes the pool.
func Open(path string, opts ...store.Option) (*store.SQL, error) {
	name, query, _ := strings.Cut(path, "?")
	params, err := url.ParseQuery(query)
	if err != nil || name == "" {
		return nil, fmt.Errorf("%w: sqlite path %q: want a file's path, with parameters behind a question mark", store.ErrInvalid, path)
	}
	for pragma, value := range map[string]string{
		"journal_mode": "WAL", "synchronous": "FULL", "foreign_keys": "1", "busy_timeout": "5000",
	} {
		if !hasPragma(params["_pragma"], pragma) {
			params.Add("_pragma", pragma+"("+value+")")
		}
	}
	if !params.Has("_txlock") {
		params.Set("_txlock", "immediate")
	}
	db, err := sqlx.Open("sqlite", name+"?"+params.Encode())
	if err != nil {
		return nil, fmt.Errorf("%w: sqlite path %q: %w", store.ErrInvalid, path, err)
	}
	db.SetMaxOpenConns(store.DefaultPool)
	db.SetMaxIdleConns(store.DefaultPool)
	if strings.Contains(name, ":memory:") {
		db.SetMaxOpenConns(1)
	}
	return store.OpenSQL(db, dialect{}, opts...), nil
}

func hasPragma(pragmas []string, name string) bool {
	for _, p := range pragmas {
		if strings.HasPrefix(strings.ToLower(p), name) {
			return true
		}
	}
	return false
}

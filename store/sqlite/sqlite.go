package sqlite

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/watermill-once/watermill-once/store"
)

// New returns the store over an application's own pool, which it never closes.
// The pool should use WAL with synchronous=FULL; [DSN] makes a connection string
// that does. A pool over ":memory:" must have exactly one connection, because
// each has a database of its own.
func New(db *sqlx.DB, opts ...store.Option) *store.SQL {
	return store.NewSQL(db, dialect{}, opts...)
}

// DSN returns a connection string of the driver "sqlite" for a file, which is
// created if missing: WAL, synchronous=FULL, foreign keys on, a busy timeout of
// 5 s and immediate transactions, unless path has parameters ("app.db?_pragma=…")
// that say otherwise.
func DSN(path string) (string, error) {
	name, query, _ := strings.Cut(path, "?")
	params, err := url.ParseQuery(query)
	if err != nil || name == "" {
		return "", fmt.Errorf("%w: sqlite path %q: want a file's path, with parameters behind a question mark", store.ErrInvalid, path)
	}
	for _, p := range [][2]string{{"journal_mode", "WAL"}, {"synchronous", "FULL"}, {"foreign_keys", "1"}, {"busy_timeout", "5000"}} {
		if !hasPragma(params["_pragma"], p[0]) {
			params.Add("_pragma", p[0]+"("+p[1]+")")
		}
	}
	if !params.Has("_txlock") {
		params.Set("_txlock", "immediate")
	}
	return name + "?" + params.Encode(), nil
}

// Open returns the store over a pool of its own on [DSN] of path, with at most
// [store.DefaultPool] connections; ":memory:" gets one. It does not open the
// file yet. [store.SQL.Close] closes the pool, and so does the guard's Close.
func Open(path string, opts ...store.Option) (*store.SQL, error) {
	dsn, err := DSN(path)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	db, err := sqlx.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: sqlite path %q: %w", store.ErrInvalid, path, err)
	}
	size := store.DefaultPool
	if strings.Contains(path, ":memory:") {
		size = 1
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return store.OpenSQL(db, dialect{}, opts...), nil
}

// checkFolder finds a mistyped path here, where it can be named: SQLite's own
// error does not say which file it could not open.
func checkFolder(path string) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "file:"), "?")
	if strings.HasPrefix(name, ":") || strings.HasPrefix(name, "//") {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		return fmt.Errorf("%w: sqlite path %q: its folder cannot be used: %w", store.ErrInvalid, path, err)
	}
	return nil
}

func hasPragma(pragmas []string, name string) bool {
	for _, p := range pragmas {
		if strings.HasPrefix(strings.ToLower(p), name) {
			return true
		}
	}
	return false
}

package storetest

import (
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// Setup makes a [Harness] out of one way to reach a database.
type Setup struct {
	// Harness is what has to be said by hand. The functions that Setup makes
	// are filled in by [Setup.Make].
	Harness Harness
	// Fresh makes an empty database (or schema, or file) and returns its DSN.
	Fresh func(t testing.TB) string
	// Connector opens connections to a DSN.
	Connector func(t testing.TB, dsn string) driver.Connector
	// OpenDB makes the application's pool. Nil: [sql.OpenDB].
	OpenDB func(driver.Connector) *sql.DB
	// Driver is the name that sqlx knows the driver by.
	Driver string
	// New makes the store over an application's pool.
	New func(*sqlx.DB, ...store.Option) *store.SQL
	// Options are those of every store.
	Options []store.Option
	// Wire, Stubs and Processes say what the suite may do beside Open and
	// Again.
	Wire, Stubs, Processes bool
	// ReadOnly changes a DSN so that its connections only read.
	ReadOnly func(t testing.TB, dsn string) string
	// Role makes a role without rights for the database of a DSN, and returns
	// its name as GRANT calls it and the DSN to connect as it; Script runs the
	// many statements of a text.
	Role   func(t testing.TB, dsn string) (name, roleDSN string)
	Script func(t testing.TB, dsn, text string)
}

// Make returns the harness.
func (s Setup) Make() Harness {
	h := s.Harness
	h.Driver = s.Driver
	if h.Direct {
		s.Options = append(s.Options, store.Direct())
	}
	// An Again, a Stub and a Role lead to the same database as their store,
	// past a wire.
	var dsns sync.Map
	open := func(t testing.TB, direct, dsn string, pool int, stub *Stub, opts []store.Option) *store.SQL {
		t.Helper()
		st := s.open(t, dsn, pool, stub, opts)
		dsns.Store(st, direct)
		t.Cleanup(func() { dsns.Delete(st) })
		return st
	}
	dsnOf := func(st *store.SQL) string {
		dsn, _ := dsns.Load(st)
		return dsn.(string)
	}

	h.Open = func(t testing.TB, pool int, opts ...store.Option) *store.SQL {
		t.Helper()
		dsn := s.Fresh(t)
		return open(t, dsn, dsn, pool, nil, opts)
	}
	h.Again = func(t testing.TB, st *store.SQL, pool int, opts ...store.Option) *store.SQL {
		t.Helper()
		return open(t, dsnOf(st), dsnOf(st), pool, nil, opts)
	}
	if s.Wire {
		h.Wire = func(t testing.TB, pool int, opts ...store.Option) (*store.SQL, *Wire) {
			t.Helper()
			dsn := s.Fresh(t)
			wire, through := WireTo(t, dsn)
			return open(t, dsn, through, pool, nil, opts), wire
		}
	}
	if s.Stubs {
		h.Stub = func(t testing.TB, st *store.SQL, pool int, stub *Stub, opts ...store.Option) *store.SQL {
			t.Helper()
			return open(t, dsnOf(st), dsnOf(st), pool, stub, opts)
		}
	}
	if s.Processes {
		h.DSN = dsnOf
	}
	if s.ReadOnly != nil {
		h.ReadOnly = func(t testing.TB, st *store.SQL, pool int, opts ...store.Option) *store.SQL {
			t.Helper()
			dsn := s.ReadOnly(t, dsnOf(st))
			return open(t, dsn, dsn, pool, nil, opts)
		}
	}
	if s.Role != nil {
		h.Role = func(t testing.TB, st *store.SQL) Role {
			t.Helper()
			owner := dsnOf(st)
			name, dsn := s.Role(t, owner)
			return Role{
				Name: name,
				Open: func(t testing.TB, pool int, opts ...store.Option) *store.SQL {
					t.Helper()
					return open(t, dsn, dsn, pool, nil, opts)
				},
				Script: func(t testing.TB, text string) {
					t.Helper()
					s.Script(t, owner, text)
				},
			}
		}
	}
	return h
}

// open makes the application's pool and the store over it.
func (s Setup) open(t testing.TB, dsn string, pool int, stub *Stub, opts []store.Option) *store.SQL {
	t.Helper()
	connector := s.Connector(t, dsn)
	if stub != nil {
		connector = stub.wrap(connector)
	}
	openDB := s.OpenDB
	if openDB == nil {
		openDB = sql.OpenDB
	}
	db := sqlx.NewDb(openDB(connector), s.Driver)
	db.SetMaxOpenConns(pool)
	db.SetMaxIdleConns(pool)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the pool: %v", err)
		}
	})
	quiet := store.WithLogger(slog.New(slog.DiscardHandler))
	st := s.New(db, slices.Concat([]store.Option{quiet}, s.Options, opts)...)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return st
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/examples/payments"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// dropBound is how long cleaning up after a run may take.
const dropBound = 15 * time.Second

// openStore opens the library's store, and with it the pool that the example's
// own tables are in.
func openStore(kind, dsn string) (*store.SQL, error) {
	switch kind {
	case "sqlite":
		return sqlite.Open(dsn)
	case "postgres":
		return postgres.Open(dsn)
	case "mariadb":
		return mysql.Open(dsn)
	default:
		return nil, fmt.Errorf("what is store %q?", kind)
	}
}

// database is the empty one that a run begins with.
type database struct {
	dsn   string
	store *store.SQL
	drop  func(context.Context) error
}

// newDatabase makes a database with the library's tables and the example's.
func newDatabase(ctx context.Context, kind, name string, balances map[int]int64) (*database, error) {
	d, err := makeDatabase(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	if err := d.fill(ctx, kind, balances); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	return d, nil
}

func (d *database) fill(ctx context.Context, kind string, balances map[int]int64) error {
	var err error
	if d.store, err = openStore(kind, d.dsn); err != nil {
		return err
	}
	if err := d.store.Migrate(ctx); err != nil {
		return err
	}
	return payments.Install(ctx, d.store.DB(), balances)
}

// close removes it, also when ctx has ended because the demo was interrupted.
func (d *database) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropBound)
	defer cancel()
	var errs []error
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(append(errs, d.drop(ctx))...)
}

func makeDatabase(ctx context.Context, kind, name string) (*database, error) {
	switch kind {
	case "sqlite":
		return makeFile(name)
	case "postgres":
		return makeSchema(ctx, name)
	default:
		return makeMariaDB(ctx, name)
	}
}

func makeFile(name string) (*database, error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the database: %w", err)
	}
	return &database{
		dsn:  filepath.Join(dir, "payments.db"),
		drop: func(context.Context) error { return os.RemoveAll(dir) },
	}, nil
}

// makeSchema makes a PostgreSQL schema and leads each connection there by its
// search path, so that neither handler nor library needs to know.
func makeSchema(ctx context.Context, name string) (*database, error) {
	server, err := serverOf("postgres", "ONCE_TEST_POSTGRES")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("ONCE_TEST_POSTGRES: want a URL, postgres://user:password@host:port/database")
	}
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	return makeOnServer(ctx, "postgres", server, u.String(),
		"CREATE SCHEMA "+name, "DROP SCHEMA IF EXISTS "+name+" CASCADE")
}

func makeMariaDB(ctx context.Context, name string) (*database, error) {
	server, err := serverOf("mariadb", "ONCE_TEST_MARIADB")
	if err != nil {
		return nil, err
	}
	config, err := mysqldriver.ParseDSN(server)
	if err != nil {
		return nil, fmt.Errorf("ONCE_TEST_MARIADB: %w", err) // the driver's errors quote nothing of it
	}
	config.DBName = name
	return makeOnServer(ctx, "mariadb", server, config.FormatDSN(),
		"CREATE DATABASE "+name, "DROP DATABASE IF EXISTS "+name)
}

func makeOnServer(ctx context.Context, kind, server, dsn, create, drop string) (*database, error) {
	if err := execOn(ctx, kind, server, create); err != nil {
		return nil, err
	}
	return &database{
		dsn:  dsn,
		drop: func(ctx context.Context) error { return execOn(ctx, kind, server, drop) },
	}, nil
}

// execOn runs one statement on a connection of its own.
func execOn(ctx context.Context, kind, server, statement string) (err error) {
	s, err := openStore(kind, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.DB().ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %s: %w", kind, statement, err)
	}
	return nil
}

func serverOf(what, variable string) (string, error) {
	address := os.Getenv(variable)
	if address == "" {
		return "", fmt.Errorf("%s: %s is not set: `make services` starts one and says where, in .services/env", what, variable)
	}
	return address, nil
}

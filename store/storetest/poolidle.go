package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"
)

// poolTimeout bounds each statement of PoolIdle: a pool that hangs fails.
const poolTimeout = 20 * time.Second

// PoolIdle fails the test unless an application's pool is as good as new: no
// connection in use (after a short while), and every connection that it may
// open (MaxOpenConns; what it has and one more when that is unlimited) can be
// borrowed, is not inside a transaction, commits each statement by itself, and
// runs a transaction whose commit stays and whose rollback leaves nothing.
//
// It makes a table in the default schema and drops it. What it writes must
// survive a ROLLBACK and be seen on another connection, if there are two; so a
// connection that was left in a transaction, or with autocommit off, shows on
// every database.
func PoolIdle(t testing.TB, db *sql.DB) {
	t.Helper()
	poolIdle(t, db, Patience)
}

func poolIdle(t testing.TB, db *sql.DB, within time.Duration) {
	t.Helper()
	Eventually(t, within, "the pool is idle", func() error {
		if used := db.Stats().InUse; used > 0 {
			return fmt.Errorf("%d of its connections are in use", used)
		}
		return nil
	})
	if err := inspectPool(db); err != nil {
		t.Fatalf("storetest: the pool is not as it was: %v", err)
	}
}

func inspectPool(db *sql.DB) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), poolTimeout)
	defer cancel()
	conns, err := borrowAll(ctx, db)
	defer func() {
		for _, conn := range conns {
			err = errors.Join(err, conn.Close())
		}
	}()
	if err != nil {
		return err
	}
	for i, conn := range conns {
		if err := outsideTransaction(ctx, conn); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, len(conns), err)
		}
	}
	// Only now: in MySQL a CREATE would commit what was left open.
	table := "once_pool_" + freshSuffix()
	if _, err := conns[0].ExecContext(ctx, "CREATE TABLE "+table+" (n INTEGER)"); err != nil {
		return err
	}
	for i, conn := range conns {
		if err := commits(ctx, conn, conns[(i+1)%len(conns)], table, 2*i); err != nil {
			err = fmt.Errorf("connection %d of %d: %w", i+1, len(conns), err)
			_, dropErr := conns[0].ExecContext(ctx, "DROP TABLE "+table)
			return errors.Join(err, dropErr)
		}
	}
	_, err = conns[0].ExecContext(ctx, "DROP TABLE "+table)
	return err
}

func borrowAll(ctx context.Context, db *sql.DB) ([]*sql.Conn, error) {
	stats := db.Stats()
	want := stats.MaxOpenConnections
	if want == 0 {
		want = stats.OpenConnections + 1
	}
	var conns []*sql.Conn
	for len(conns) < want {
		conn, err := db.Conn(ctx)
		if err != nil {
			return conns, fmt.Errorf("borrow connection %d of %d: %w", len(conns)+1, want, err)
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// outsideTransaction asks without a statement that would end a transaction. A
// savepoint can be gone back to only inside one; but in SQLite a savepoint
// begins one, and there it is what follows that tells.
func outsideTransaction(ctx context.Context, conn *sql.Conn) error {
	_, _ = conn.ExecContext(ctx, "SAVEPOINT once_pool")
	if _, err := conn.ExecContext(ctx, "ROLLBACK TO SAVEPOINT once_pool"); err != nil {
		return nil //nolint:nilerr // refused: there is no transaction
	}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		return errors.New("it was left in a transaction, or with autocommit off")
	}
	_, err := conn.ExecContext(ctx, "RELEASE once_pool")
	return err
}

// commits writes a row as a statement of its own, one in a transaction, and
// one that is rolled back, and finds the first two of them, besides the rows
// that are there already, on the same connection and on another.
func commits(ctx context.Context, conn, other *sql.Conn, table string, rows int) error {
	insert := "INSERT INTO " + table + " VALUES (1)"
	if _, err := conn.ExecContext(ctx, insert); err != nil {
		return err
	}
	// Takes the row away if it was written in a transaction; else it does
	// nothing, which some databases call an error.
	_, _ = conn.ExecContext(ctx, "ROLLBACK")
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insert); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := end(tx); err != nil {
			return err
		}
	}
	for _, reader := range []*sql.Conn{conn, other} {
		var found int
		if err := reader.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&found); err != nil {
			return err
		}
		if want := rows + 2; found != want {
			return fmt.Errorf("%d rows are to be seen instead of %d: a statement outside a transaction was not committed", found, want)
		}
	}
	return nil
}

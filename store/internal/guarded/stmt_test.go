package guarded_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestNumberOfArguments(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{numInput: 2}, guarded.Rules{})
	err := s.tx(func(tx *sqlx.Tx) error {
		stmt, err := tx.Prepare("INSERT")
		wantNil(t, err)
		defer stmt.Close()
		_, err = stmt.Exec(1, 2)
		wantNil(t, err)
		_, err = stmt.Exec(1)
		if err == nil || err.Error() != "sql: expected 2 arguments, got 1" {
			t.Errorf("got %v", err)
		}
		return nil
	})
	wantIs(t, err, guarded.ErrDoomed)
	s.wantSent("prepare INSERT", "exec INSERT", "close INSERT", "exec ROLLBACK")
}

// A statement that is closed while a Rows is open would meet it on the wire; on
// some drivers it would be lost, and stay on the server with the connection.
func TestStatementClosedWhileBusy(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		s := newStand(t, &fake{}, guarded.Rules{})
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			stmt, err := tx.Prepare("SELECT")
			wantNil(t, err)
			rows, err := stmt.Query()
			wantNil(t, err)
			wantNil(t, stmt.Close())
			if left {
				return rows.Err()
			}
			return errors.Join(rows.Close(), rows.Err())
		}))
		s.wantSent("prepare SELECT", "query SELECT", "close rows SELECT", "close SELECT", "exec COMMIT")
	}
}

func TestStatementsAreClosedAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, returns := range []error{nil, errFake} {
		s := newStand(t, &fake{}, guarded.Rules{})
		err := s.tx(func(tx *sqlx.Tx) error {
			for _, query := range []string{"A", "B", "C"} {
				stmt, err := tx.Prepare(query) //nolint:sqlclosecheck // with the transaction
				wantNil(t, err)
				if query == "B" {
					wantNil(t, stmt.Close())
					wantNil(t, stmt.Close())
				}
			}
			return returns
		})
		if !errors.Is(err, returns) {
			t.Error(err)
		}
		end := "exec COMMIT"
		if returns != nil {
			end = "exec ROLLBACK"
		}
		s.wantSent("prepare A", "prepare B", "close B", "prepare C", "close A", "close C", end)
	}
}

// One that cannot be closed may still be there: the connection is in doubt.
func TestStatementThatDoesNotClose(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{do: func(c call) error {
		if c.verb == "close" {
			return errFake
		}
		return nil
	}}, guarded.Rules{})
	wantNil(t, s.tx(func(tx *sqlx.Tx) error {
		_, err := tx.Prepare("A") //nolint:sqlclosecheck // with the transaction
		return err
	}))
	if opened, closed, _ := s.f.counts(); opened != 1 || closed != 1 {
		t.Errorf("opened %d, closed %d", opened, closed)
	}
}

// lib/pq's way to COPY: a prepared statement that takes a row with each Exec
// and ends with an Exec of nothing.
func TestCopy(t *testing.T) {
	t.Parallel()
	copyIn := func(t *testing.T, tx *sqlx.Tx) *sql.Stmt {
		t.Helper()
		stmt, err := tx.Prepare(`COPY "t" ("a") FROM STDIN`)
		wantNil(t, err)
		_, err = stmt.Exec("row")
		wantNil(t, err)
		return stmt
	}
	const text = `COPY "t" ("a") FROM STDIN`
	sent := []string{"prepare " + text, "exec " + text}

	t.Run("to its end", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{stmtKind: "old"}, postgresRules)
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			stmt := copyIn(t, tx)
			_, err := stmt.Exec()
			wantNil(t, err)
			wantNil(t, stmt.Close())
			exec(t, tx, "INSERT")
			return nil
		}))
		s.wantSent(append(sent, "exec "+text, "close "+text, "exec INSERT", "exec COMMIT")...)
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{stmtKind: "old"}, postgresRules)
		wantNil(t, s.tx(func(tx *sqlx.Tx) error {
			wantNil(t, copyIn(t, tx).Close())
			exec(t, tx, "INSERT")
			return nil
		}))
		s.wantSent(append(sent, "close "+text, "exec INSERT", "exec COMMIT")...)
	})
	t.Run("left open", func(t *testing.T) {
		t.Parallel()
		for _, returns := range []error{nil, errFake} {
			s := newStand(t, &fake{stmtKind: "old"}, postgresRules)
			err := s.tx(func(tx *sqlx.Tx) error { copyIn(t, tx); return returns })
			end := "exec COMMIT"
			if returns != nil {
				end = "exec ROLLBACK"
			}
			if !errors.Is(err, returns) {
				t.Error(err)
			}
			s.wantSent(append(sent, "close "+text, end)...)
		}
	})
	t.Run("with something in between", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{stmtKind: "old"}, postgresRules)
		wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
			copyIn(t, tx)
			_, err := tx.Exec("INSERT")
			wantIs(t, err, guarded.ErrBusy)
			return nil
		}), guarded.ErrBusy)
		s.wantSent(append(sent, "close "+text, "exec ROLLBACK")...)
	})
	t.Run("a row fails", func(t *testing.T) {
		t.Parallel()
		rows := 0
		s := newStand(t, &fake{stmtKind: "old", do: func(c call) error {
			if rows++; c.verb == "exec" && rows == 3 {
				return errFake
			}
			return nil
		}}, postgresRules)
		wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
			stmt := copyIn(t, tx)
			_, err := stmt.Exec("row")
			wantIs(t, err, errFake)
			_, err = stmt.Exec("row")
			wantDoom(t, err, errFake)
			return nil
		}), errFake)
		s.wantSent(append(sent, "exec "+text, "close "+text, "exec ROLLBACK")...)
	})
	t.Run("its end fails", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, &fake{stmtKind: "old", do: func(c call) error {
			if c.verb == "close" {
				return errFake
			}
			return nil
		}}, postgresRules)
		wantDoom(t, s.tx(func(tx *sqlx.Tx) error { copyIn(t, tx); return nil }), errFake)
		s.wantSent(append(sent, "close "+text, "exec ROLLBACK")...)
	})
}

package guarded_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

func TestHandlerThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panic": func() { panic(errFake) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{}, guarded.Rules{})
			var recovered any
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { recovered = recover() }()
				_ = s.tx(func(tx *sqlx.Tx) error {
					rows, err := tx.Query("SELECT")
					wantNil(t, err)
					defer func() { _ = rows.Err() }() // left open
					leave()
					return nil
				})
			}()
			<-done
			if name == "panic" && recovered != errFake { //nolint:errorlint // the value itself
				t.Errorf("recovered %v", recovered)
			}
			s.wantSent("query SELECT", "close rows SELECT", "exec ROLLBACK")
			if opened, closed, _ := s.f.counts(); opened != 1 || closed != 0 {
				t.Errorf("opened %d, closed %d: the connection is healthy", opened, closed)
			}
		})
	}
}

// A driver that panics in the end itself leaves a connection that nobody knows.
func TestPanicInTheEnd(t *testing.T) {
	t.Parallel()
	for _, returns := range []error{nil, errFake} {
		s := newStand(t, &fake{do: func(c call) error {
			if c.query == "COMMIT" || c.query == "ROLLBACK" {
				panic(errFake)
			}
			return nil
		}}, guarded.Rules{})
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			_ = s.tx(func(*sqlx.Tx) error { return returns })
		}()
		if got := <-done; got != errFake { //nolint:errorlint // the value itself
			t.Errorf("recovered %v", got)
		}
		s.wantIdle()
		if opened, closed, _ := s.f.counts(); opened != 1 || closed != 1 {
			t.Errorf("opened %d, closed %d", opened, closed)
		}
	}
}

// With sql.RawBytes, database/sql holds a lock until the next Next or Close, and
// its own Commit and Rollback would wait for that for ever.
func TestRowsLeftOpen(t *testing.T) {
	t.Parallel()
	for name, dest := range map[string]func() any{
		"string":   func() any { return new(string) },
		"RawBytes": func() any { return new(sql.RawBytes) },
	} {
		for _, returns := range []error{nil, errFake} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newStand(t, &fake{}, guarded.Rules{})
				var left *sql.Rows
				err := s.tx(func(tx *sqlx.Tx) error {
					rows, err := tx.Query("SELECT") //nolint:sqlclosecheck // that is the case
					wantNil(t, err)
					if !rows.Next() || rows.Scan(dest()) != nil {
						t.Fatal(rows.Err())
					}
					left = rows
					return returns
				})
				if !errors.Is(err, returns) {
					t.Errorf("got %v", err)
				}
				end := "exec COMMIT"
				if returns != nil {
					end = "exec ROLLBACK"
				}
				s.wantSent("query SELECT", "close rows SELECT", end)
				for left.Next() { // it is closed, under the handler
					t.Error("a row after the end")
				}
				_ = left.Close()
				s.wantSent()
			})
		}
	}
}

func TestErrorInRowsLeftOpen(t *testing.T) {
	t.Parallel()
	s := newStand(t, failHere(&fake{}), guarded.Rules{})
	wantDoom(t, s.tx(func(tx *sqlx.Tx) error {
		rows, err := tx.Query("SELECT bad end") //nolint:sqlclosecheck // that is the case
		wantNil(t, err)
		return rows.Err()
	}), errFake)
	s.wantSent("query SELECT bad end", "close rows SELECT bad end", "exec ROLLBACK")
}

// A statement that is under way when the handler returns is waited for, and is
// no success: who knows what else that goroutine wants to write.
func TestStatementAtTheEnd(t *testing.T) {
	t.Parallel()
	inside, goOn := make(chan struct{}), make(chan struct{})
	s := newStand(t, &fake{do: func(c call) error {
		if c.query == "SLOW" {
			close(inside)
			<-goOn
		}
		return nil
	}}, guarded.Rules{})
	slow := make(chan error, 1)
	err := s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
		go func() {
			_, err := tx.Exec("SLOW")
			if _, next := tx.Exec("INSERT"); next == nil {
				t.Error("a statement after the end")
			}
			slow <- err
		}()
		<-inside
		go func() {
			for c.Doom() == nil { // the end has seen it
				runtime.Gosched()
			}
			close(goOn)
		}()
		return nil
	})
	wantNil(t, <-slow)
	wantDoom(t, err, guarded.ErrBusy)
	s.wantSent("exec SLOW", "exec ROLLBACK")
}

// One that does not end keeps its connection, but not the attempt.
func TestStatementThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for _, returns := range []error{nil, errFake} {
		inside, goOn := make(chan struct{}), make(chan struct{})
		s := newStand(t, &fake{do: func(c call) error {
			if c.query == "HANGS" {
				close(inside)
				<-goOn
			}
			return nil
		}}, guarded.Rules{})
		s.bound = 20 * time.Millisecond
		hangs := make(chan error, 1)
		began := time.Now()
		err := s.tx(func(tx *sqlx.Tx) error {
			go func() {
				_, err := tx.Exec("HANGS")
				hangs <- err
			}()
			<-inside
			return returns
		})
		if waited := time.Since(began); waited < s.bound {
			t.Errorf("waited %v", waited)
		}
		if returns == nil {
			wantDoom(t, err, guarded.ErrBusy)
		} else {
			wantIs(t, err, errFake)
		}
		if n := s.app.Stats().InUse; n != 1 {
			t.Errorf("%d connections in use", n)
		}
		close(goOn)
		wantNil(t, <-hangs)
		s.app.SetMaxOpenConns(1)
		wantNil(t, s.app.Ping()) // waits until it is back
		if opened, closed, _ := s.f.counts(); opened != 2 || closed != 1 {
			t.Errorf("opened %d, closed %d: it was to be discarded", opened, closed)
		}
		s.wantSent("exec HANGS", "exec ROLLBACK", "ping ")
	}
}

func TestStatementsAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{}, guarded.Rules{})
	var was *sqlx.Tx
	var stmt *sql.Stmt
	wantNil(t, s.tx(func(tx *sqlx.Tx) (err error) {
		was = tx
		stmt, err = tx.Prepare("INSERT") //nolint:sqlclosecheck // with the transaction
		return err
	}))
	s.wantSent("prepare INSERT", "close INSERT", "exec COMMIT")
	_, err := was.Exec("INSERT")
	wantIs(t, err, sql.ErrTxDone)
	_, err = stmt.Exec()
	if err == nil {
		t.Error("a statement after the end")
	}
	wantIs(t, was.Commit(), sql.ErrTxDone)
	wantIs(t, was.Rollback(), sql.ErrTxDone)
	s.wantSent()
}

// Many goroutines of a handler that ends under them: whatever they do, nothing
// reaches the driver behind the end, and never two calls at once.
func TestEndUnderGoroutines(t *testing.T) {
	t.Parallel()
	s := newStand(t, &fake{do: failing}, postgresRules)
	for round := range 200 {
		done := make(chan struct{})
		const goroutines = 6
		err := s.attempt(func(c *guarded.Conn, tx *sqlx.Tx) error {
			ctx, cancel := context.WithCancel(t.Context())
			for g := range goroutines {
				go func() {
					defer func() { done <- struct{}{} }()
					for range 20 {
						switch (g + round) % 6 {
						case 0:
							_, _ = tx.Exec("INSERT")
						case 1:
							_ = tx.Select(&[]string{}, "SELECT")
						case 2:
							_ = tx.QueryRowContext(ctx, "SELECT").Scan(new(string))
						case 3:
							if stmt, err := tx.Prepare("INSERT"); err == nil {
								_, _ = stmt.Exec()
								_ = stmt.Close()
							}
						case 4:
							cancel()
						case 5:
							_, _ = tx.Exec("ROLLBACK TO a")
							if round%5 == 0 {
								_ = tx.Rollback()
							}
						}
					}
				}()
			}
			defer cancel()
			if round%2 == 0 {
				return errFake
			}
			return nil
		})
		for range goroutines {
			<-done
		}
		if round%2 == 0 {
			wantIs(t, err, errFake)
		}
		ends := 0
		sent := s.f.sent()
		for i, what := range sent {
			if what == "exec COMMIT" || what == "exec ROLLBACK" {
				ends++
				if after := sent[i+1:]; len(after) > 0 {
					t.Errorf("after %s: %q", what, after)
				}
			}
		}
		if ends != 1 {
			t.Fatalf("%d ends: %q", ends, sent)
		}
		s.wantIdle()
	}
}

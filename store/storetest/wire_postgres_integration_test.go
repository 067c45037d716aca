//go:build integration

package storetest_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func isPgx(d driver) bool { return d.sql == "pgx" }
func isPq(d driver) bool  { return d.sql == "postgres" }

// keepAnswers makes the wire keep each answer until it is whole: a request
// whose end it does not find hangs.
func (b *bench) keepAnswers() {
	b.wire.On(storetest.Any, storetest.Fault{After: true, Times: -1})
}

// allAnswered fails unless the wire has seen the end of each round trip.
func (b *bench) allAnswered(t *testing.T) {
	t.Helper()
	trips := 0
	for _, s := range b.wire.Statements() {
		trips = max(trips, s.RoundTrip)
	}
	if got := b.wire.RoundTrips(); got != trips || trips == 0 {
		t.Errorf("%d round trips answered of %d", got, trips)
	}
}

// raw runs f with the pool's pgx connection, on which the insert is prepared
// where the mode prepares.
func (b *bench) raw(t *testing.T, f func(context.Context, *pgx.Conn)) {
	t.Helper()
	b.app.SetMaxOpenConns(1)
	for range 2 {
		if err := b.insert(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := b.app.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.wire.Reset()
	if err := conn.Raw(func(c any) error {
		f(t.Context(), c.(*stdlib.Conn).Conn())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

const insertSQL = "INSERT INTO accounts VALUES ($1, $2)"

func TestWireShowsABatch(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		b.raw(t, func(ctx context.Context, conn *pgx.Conn) {
			batch := &pgx.Batch{}
			batch.Queue("begin")
			batch.Queue(insertSQL, 1, "one")
			if err := conn.SendBatch(ctx, batch).Close(); err != nil {
				t.Error(err)
			}
			if _, err := conn.Exec(ctx, "commit"); err != nil {
				t.Error(err)
			}
		})
		ran := b.wire.Ran()
		if b.param == "default_query_exec_mode" && b.value == "simple_protocol" {
			if len(ran) != 2 || !strings.Contains(ran[0].Text, "INSERT") {
				t.Errorf("ran %v", ran)
			}
		} else {
			batched := last(ran[:2]).RoundTrip // one before it prepares begin, in the modes that prepare
			wantEqual(t, "texts", storetest.Texts(ran), []string{"begin", insertSQL, "commit"})
			if ran[0].RoundTrip != batched || ran[2].RoundTrip != batched+1 {
				t.Errorf("round trips of %v", ran)
			}
		}
		b.allAnswered(t)
		if n := b.rows(t); n != 3 {
			t.Errorf("%d rows", n)
		}
	}, isPgx)
}

// A statement of a batch keeps the whole batch back.
func TestWireCutsABatch(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.raw(t, func(ctx context.Context, conn *pgx.Conn) {
			trip := b.wire.CutBefore(func(s storetest.Statement) bool { return s.Runs() && s.Text == insertSQL })
			batch := &pgx.Batch{}
			batch.Queue(insertSQL, 1, "one").Exec(nil)
			batch.Queue(insertSQL, 2, "two")
			if err := conn.SendBatch(ctx, batch).Close(); err == nil || trip.Hits() != 1 {
				t.Errorf("%v, %d hits", err, trip.Hits())
			}
		})
		if n := b.rows(t); n != 2 {
			t.Errorf("%d rows", n)
		}
	}, isPgx, func(d driver) bool { return d.value != "simple_protocol" })
}

func TestWireShowsCopy(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		b.raw(t, func(ctx context.Context, conn *pgx.Conn) {
			rows := make([][]any, 5000)
			for i := range rows {
				rows[i] = []any{int64(i), "someone with a name of some length"}
			}
			n, err := conn.CopyFrom(ctx, pgx.Identifier{"accounts"}, []string{"id", "owner"}, pgx.CopyFromRows(rows))
			if err != nil || int(n) != len(rows) {
				t.Errorf("copied %d: %v", n, err)
			}
		})
		kinds := storetest.Statement{}
		for _, s := range b.wire.Statements() {
			if s.Kind == storetest.KindCopyEnd {
				kinds = s
			}
		}
		if b.wire.Count(storetest.KindCopy) != 1 || b.wire.Count(storetest.KindCopyEnd) != 1 || kinds.Text == "" {
			t.Errorf("statements %v", b.wire.Statements())
		}
		b.allAnswered(t)
	}, isPgx)
}

// A pipeline that asks for answers with Flush, and one that fails before its
// Sync.
func TestWireFollowsFlush(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		b.raw(t, func(ctx context.Context, conn *pgx.Conn) {
			pipeline := conn.PgConn().StartPipeline(ctx)
			for _, query := range []string{"SELECT 1", "SELECT 1/0", "SELECT 2"} {
				pipeline.SendQueryParams(query, nil, nil, nil, nil)
				pipeline.SendFlushRequest()
				if err := pipeline.Flush(); err != nil {
					t.Error(err)
				}
			}
			if err := pipeline.Sync(); err != nil {
				t.Error(err)
			}
			results := 0
			for {
				result, err := pipeline.GetResults()
				if reader, ok := result.(*pgconn.ResultReader); ok {
					_, err = reader.Close()
				}
				if result == nil && err == nil {
					break
				}
				if results++; results > 4 {
					break
				}
			}
			_ = pipeline.Close()
		})
		// Not answered: the second failed, and the third was skipped.
		if got := b.wire.RoundTrips(); got != 3 {
			t.Errorf("%d round trips: %v", got, b.wire.Statements())
		}
	}, isPgx, driver.namesBackends)
}

func TestWireShowsCopyOfPq(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		tx, err := b.app.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		stmt, err := tx.Prepare("COPY accounts (id, owner) FROM STDIN")
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		for id := range 3 {
			if _, err := stmt.Exec(id, "someone"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := stmt.Exec(); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		b.allAnswered(t)
		if b.rows(t) != 3 || b.wire.Count(storetest.KindCopy) != 1 || b.wire.Count(storetest.KindCopyEnd) != 1 {
			t.Errorf("statements %v", b.wire.Statements())
		}
	}, isPq)
}

func TestWireForwardsACancel(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		exec(t, b.app, "SELECT 1")
		b.wire.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		trip := b.wire.On(storetest.Running("pg_sleep"), storetest.Fault{})
		go func() {
			_, err := b.app.ExecContext(ctx, "SELECT pg_sleep(60)")
			done <- err
		}()
		trip.Await(t)
		storetest.Eventually(t, 0, "the query runs", func() error { return sleeping(b) })
		cancel()
		if err := <-done; err == nil {
			t.Error("no error")
		}
		storetest.Eventually(t, 0, "the query has ended", func() error {
			if err := sleeping(b); err == nil {
				return errors.New("it runs")
			}
			return nil
		})
		aim := slices.IndexFunc(b.wire.Statements(), func(s storetest.Statement) bool { return s.Kind == storetest.KindCancel })
		if aim < 0 || b.wire.Statements()[aim].Backend != last(b.wire.Ran()).Backend {
			t.Errorf("no cancel of that backend: %v", b.wire.Statements())
		}
	}, func(d driver) bool { return !d.mysql() }, driver.namesBackends)
}

// sleeping is nil when this test's query runs on the server.
func sleeping(b *bench) error {
	var n int
	err := b.direct.Get(&n, "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active' AND pid = $1",
		last(b.wire.Ran()).Backend)
	if errors.Is(err, sql.ErrNoRows) {
		return errors.New("it does not run")
	}
	return err
}

// Statements with names keep their text after a reset, and through a Close.
func TestWireResolvesPreparedStatements(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		b.app.SetMaxOpenConns(1)
		text := b.app.Rebind("SELECT COUNT(*) FROM accounts WHERE id > ?")
		stmt, err := b.app.PreparexContext(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		b.wire.Reset()
		for id := range 3 {
			var n int
			if err := stmt.GetContext(t.Context(), &n, id); err != nil {
				t.Fatal(err)
			}
		}
		ran := b.wire.Ran()
		if got := len(slices.DeleteFunc(slices.Clone(ran), func(s storetest.Statement) bool { return s.Text != text })); got != 3 {
			t.Errorf("%d executes: %v", got, ran)
		}
		b.allAnswered(t)
	}, func(d driver) bool { return d.value != "simple_protocol" && d.namesBackends() })
}

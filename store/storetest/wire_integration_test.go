//go:build integration

package storetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestWireShowsATransaction(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.app.SetMaxOpenConns(1)
		// pgx pings when it hands out a connection for the second time.
		for id := range 3 {
			b.wire.Reset()
			if err := b.insert(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		got := b.wire.Statements()
		wantEqual(t, "statements", short(got), b.seen)
		last := got[len(got)-1]
		if b.wire.RoundTrips() != last.RoundTrip || b.wire.Dropped() != 0 || b.wire.Open() != 1 {
			t.Errorf("round trips %d of %d, dropped %d, open %d", b.wire.RoundTrips(), last.RoundTrip, b.wire.Dropped(), b.wire.Open())
		}
		ran := b.wire.Ran()
		if len(ran) != 3 || ran[2].Run != 3 || !strings.HasPrefix(ran[1].Text, "INSERT INTO accounts VALUES (") {
			t.Errorf("ran %v", ran)
		}
		if b.namesBackends() && !b.alive(t, last.Backend) {
			t.Errorf("backend %d is not the server's", last.Backend)
		}
		storetest.PoolIdle(t, b.app.DB)
	})
}

// Each round trip of a transaction in turn loses its request, then its answer.
func TestWireCutsAtEachRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.app.SetMaxOpenConns(1)
		for after, cut := range map[bool]func(storetest.Match) *storetest.Trip{false: b.wire.CutBefore, true: b.wire.CutAfter} {
			for n := 1; ; n++ {
				exec(t, b.app, "SELECT 1") // a connection that lives
				before := b.rows(t)
				b.wire.Reset()
				trip := cut(storetest.NthRoundTrip(n))
				err := b.insert(t.Context(), n)
				if trip.Hits() == 0 {
					b.wire.Disarm()
					if err != nil {
						t.Errorf("round trip %d: no fault and %v", n, err)
					}
					break
				}
				// The driver tries a BEGIN again on another connection when it
				// can tell that nothing was sent or that the session was idle.
				if err == nil && n > 1 {
					t.Errorf("round trip %d: cut, and no error", n)
				}
				if b.wire.Dropped() != 1 {
					t.Errorf("round trip %d: dropped %d", n, b.wire.Dropped())
				}
				if err != nil {
					committed := strings.EqualFold(last(b.wire.Ran()).Text, "commit")
					wantRows(t, b, n, before, committed && after)
				}
			}
		}
	})
}

func TestWireCutsTheCommit(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.wire.CutBefore(storetest.Running("commit"))
		if err := b.insert(t.Context(), 1); err == nil {
			t.Error("no error")
		}
		if n := b.rows(t); n != 0 {
			t.Errorf("before: %d rows", n)
		}
		b.wire.CutAfter(storetest.Running("commit"))
		if err := b.insert(t.Context(), 2); err == nil {
			t.Error("no error")
		}
		if n := b.rows(t); n != 1 {
			t.Errorf("after: %d rows", n)
		}
		storetest.PoolIdle(t, b.app.DB)
	})
}

func TestWireGoesSilentAtTheCommit(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for rows, silence := range []func(storetest.Match) *storetest.Trip{b.wire.BlackHole, b.wire.BlackHoleAfter} {
			exec(t, b.app, "SELECT 1")
			b.wire.Reset()
			trip := silence(storetest.Running("commit"))
			done := make(chan error, 1)
			go func() { done <- b.insert(soon(t), rows) }()
			trip.Await(t)
			backend := last(b.wire.Ran()).Backend
			// A commit of go-sql-driver and lib/pq does not end with the context.
			if b.sql != "pgx" {
				b.wire.CutAll()
			}
			if err := <-done; err == nil {
				t.Error("no error")
			}
			if b.sql == "pgx" && b.namesBackends() && !b.alive(t, backend) {
				t.Error("the server learnt that the client has gone")
			}
			b.wire.CutAll()
			if n := b.rows(t); n != rows {
				t.Errorf("%d rows, want %d", n, rows)
			}
		}
		storetest.PoolIdle(t, b.app.DB)
	})
}

func TestWireHoldsBytesPastTheirClient(t *testing.T) {
	// Only pgx gives a commit up when its context ends; and pgbouncer may drop
	// what it got from a client that is gone.
	each(t, func(t *testing.T, b *bench) {
		trip := b.wire.Hold(storetest.Running("commit"))
		if err := b.insert(soon(t), 1); err == nil {
			t.Fatal("no error")
		}
		if n := b.rows(t); n != 0 {
			t.Fatalf("%d rows before the release", n)
		}
		trip.Release()
		storetest.Eventually(t, 0, "the commit arrives late", func() error { return rowsAre(b, 1) })
	}, func(d driver) bool { return d.sql == "pgx" && d.namesBackends() })
}

func TestWireKillsTheBackendAtAStatement(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, after := range []bool{false, true} {
			trip := b.wire.On(storetest.Running("insert"), storetest.Fault{
				After: after, Call: func(s storetest.Statement) { b.kill(t, s) },
			})
			if err := b.insert(t.Context(), 1); err == nil || trip.Hits() != 1 {
				t.Errorf("after %v: %v, %d hits", after, err, trip.Hits())
			}
			trip.Await(t) // the client may know before the killer does
			if n := b.rows(t); n != 0 || b.wire.Dropped() != 0 {
				t.Errorf("%d rows, dropped %d", n, b.wire.Dropped())
			}
		}
		storetest.PoolIdle(t, b.app.DB)
	}, driver.namesBackends)
}

func TestWireDelaysEveryRequest(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		exec(t, b.app, "SELECT 1")
		b.wire.Reset()
		const delay = 20 * time.Millisecond
		trip := b.wire.On(storetest.Any, storetest.Fault{Delay: delay, Times: -1})
		begin := time.Now()
		if err := b.insert(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if took, least := time.Since(begin), time.Duration(b.wire.RoundTrips())*delay; took < least {
			t.Errorf("took %v, less than %v", took, least)
		}
		if trip.Hits() < b.wire.RoundTrips() {
			t.Errorf("%d hits for %d round trips", trip.Hits(), b.wire.RoundTrips())
		}
	})
}

func TestWireFailsOver(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		exec(t, b.app, "SELECT 1")
		b.wire.Refuse()
		b.wire.CutAll()
		if err := b.app.PingContext(t.Context()); err == nil {
			t.Error("a ping through a wire that refuses")
		}
		b.wire.Resume()
		b.wire.Retarget("127.0.0.1:1") // nobody listens
		if err := b.app.PingContext(t.Context()); err == nil {
			t.Error("a ping to nobody")
		}
		b.wire.Retarget(storetest.DSNAddress(t, storetest.Address(t, b.server)))
		if err := b.insert(t.Context(), 1); err != nil {
			t.Error(err)
		}
		storetest.PoolIdle(t, b.app.DB)
	})
}

func last(statements []storetest.Statement) storetest.Statement { return statements[len(statements)-1] }

func wantRows(t *testing.T, b *bench, n, before int, committed bool) {
	t.Helper()
	want := before
	if committed {
		want++
	}
	if got := b.rows(t); got != want {
		t.Errorf("round trip %d: %d rows, want %d", n, got, want)
	}
}

func rowsAre(b *bench, want int) error {
	var n int
	err := b.direct.Get(&n, "SELECT COUNT(*) FROM accounts")
	if err == nil && n != want {
		err = fmt.Errorf("%d rows, want %d", n, want)
	}
	return err
}

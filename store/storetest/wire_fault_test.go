package storetest_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// session is a client that reaches a fake server through a wire.
func session(t *testing.T) (*storetest.Wire, *fakePostgres, *fakeClient) {
	t.Helper()
	server := newFakePostgres(t)
	wire := storetest.NewWire(t, storetest.PostgresWire, server.addr)
	return wire, server, connect(t, wire.Addr())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCutBeforeKeepsTheStatementFromTheServer(t *testing.T) {
	t.Parallel()
	wire, server, client := session(t)
	wire.CutBefore(storetest.Running("two"))
	must(t, client.query("ONE"))
	if err := client.query("TWO"); err == nil {
		t.Error("no error")
	}
	server.next(t, "ONE")
	finish(t, "the server's connection", server.gone)
	server.none(t)
	if wire.Dropped() != 1 || wire.RoundTrips() != 1 {
		t.Errorf("dropped %d, round trips %d", wire.Dropped(), wire.RoundTrips())
	}
	wantEqual(t, "texts", storetest.Texts(wire.Ran()), []string{"ONE", "TWO"})
	must(t, connect(t, wire.Addr()).query("TWO")) // once
}

func TestCutAfterLetsTheServerExecute(t *testing.T) {
	t.Parallel()
	wire, server, client := session(t)
	wire.CutAfter(storetest.NthRun(1))
	if err := client.query("ONE"); err == nil {
		t.Error("no error")
	}
	server.next(t, "ONE")
	if wire.Dropped() != 1 || wire.RoundTrips() != 1 {
		t.Errorf("dropped %d, round trips %d", wire.Dropped(), wire.RoundTrips())
	}
}

// The start of a connection is a statement too.
func TestFaultsAtTheStartOfAConnection(t *testing.T) {
	t.Parallel()
	wire, server, _ := session(t)
	for _, cut := range []func(storetest.Match) *storetest.Trip{wire.CutBefore, wire.CutAfter} {
		wire.Reset()
		cut(storetest.OfKind(storetest.KindConnect))
		refused(t, wire.Addr())
		finish(t, "the server's connection", server.gone)
		if wire.Dropped() != 1 || wire.Count(storetest.KindConnect) != 1 {
			t.Errorf("dropped %d: %v", wire.Dropped(), wire.Statements())
		}
	}
}

func TestBlackHoleHidesEachSideFromTheOther(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wire, server, client := session(t)
			trip := wire.On(storetest.Running("one"), storetest.Fault{After: after, End: storetest.BlackHole})
			client.send("ONE")
			trip.Await(t)
			client.send("TWO")
			client.silent(t)
			must(t, client.Close())
			if after {
				server.next(t, "ONE")
			}
			select {
			case <-server.gone:
				t.Error("the server learnt that the client has gone")
			case <-time.After(50 * time.Millisecond):
			}
			server.none(t)
			wire.CutAll()
			finish(t, "the server's connection", server.gone)
		})
	}
}

func TestHoldLetsTheBytesTravelLater(t *testing.T) {
	t.Parallel()
	wire, server, client := session(t)
	trip := wire.Hold(storetest.Any)
	client.send("ONE")
	finish(t, "the hold", trip.Reached())
	client.silent(t)
	must(t, client.Close()) // the client gives up, its bytes do not
	server.none(t)
	trip.Release()
	trip.Release()
	server.next(t, "ONE")
	finish(t, "the server's connection", server.gone)
}

// A hold that no one releases ends with its wire (goleak looks).
func TestHoldEndsWithTheWire(t *testing.T) {
	t.Parallel()
	wire, _, client := session(t)
	before, after := wire.Hold(storetest.Running("one")), wire.On(storetest.Running("one"), storetest.Fault{After: true, Hold: true})
	client.send("ONE")
	before.Await(t)
	before.Release()
	after.Await(t)
	client.silent(t)
}

func TestFaultsHappenInOrderAndAsOftenAsTold(t *testing.T) {
	t.Parallel()
	wire, _, client := session(t)
	var order []string
	say := func(word string) func(storetest.Statement) {
		return func(s storetest.Statement) {
			if s.Backend != 7001 || len(wire.Statements()) == 0 {
				t.Errorf("statement %+v", s)
			}
			order = append(order, word+" "+s.Text)
		}
	}
	wire.On(storetest.Any, storetest.Fault{Call: say("a"), Times: -1})
	twice := wire.On(storetest.Any, storetest.Fault{Call: say("b"), Times: 2})
	once := wire.On(storetest.Any, storetest.Fault{Call: say("c"), After: true})
	for _, text := range []string{"1", "2", "3"} {
		must(t, client.query(text))
	}
	if want := []string{"a 1", "b 1", "c 1", "a 2", "b 2", "a 3"}; !slices.Equal(order, want) {
		t.Errorf("%v", order)
	}
	if twice.Hits() != 2 || once.Hits() != 1 {
		t.Errorf("%d, %d hits", twice.Hits(), once.Hits())
	}
}

func TestDelayIsWaitedFor(t *testing.T) {
	t.Parallel()
	wire, _, client := session(t)
	const delay = 20 * time.Millisecond
	wire.On(storetest.Any, storetest.Fault{Delay: delay})
	wire.On(storetest.Any, storetest.Fault{Delay: delay, After: true})
	begin := time.Now()
	must(t, client.query("ONE"))
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("took %v", took)
	}
}

func TestDisarmRemovesAndReleases(t *testing.T) {
	t.Parallel()
	wire, server, client := session(t)
	trip := wire.Hold(storetest.Any)
	wire.CutBefore(storetest.Running("two"))
	client.send("ONE")
	trip.Await(t)
	wire.Disarm()
	must(t, client.untilReady())
	must(t, client.query("TWO"))
	server.next(t, "ONE")
	server.next(t, "TWO")
}

// t.FailNow in a Call ends the connection, not the wire.
func TestCallMayLeaveByGoexit(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		wire, server, client := session(t)
		wire.On(storetest.Any, storetest.Fault{After: after, Call: func(storetest.Statement) { runtime.Goexit() }})
		if err := client.query("ONE"); err == nil {
			t.Error("no error")
		}
		finish(t, "the server's connection", server.gone)
		must(t, connect(t, wire.Addr()).query("TWO"))
	}
}

func TestMatchMayLookAtTheWire(t *testing.T) {
	t.Parallel()
	wire, _, client := session(t)
	var seen atomic.Int64
	wire.On(func(s storetest.Statement) bool {
		seen.Store(int64(len(wire.Ran())))
		return s.RoundTrip == 2
	}, storetest.Fault{End: storetest.Cut})
	must(t, client.query("ONE"))
	if err := client.query("TWO"); err == nil || seen.Load() != 2 {
		t.Errorf("%v, %d", err, seen.Load())
	}
}

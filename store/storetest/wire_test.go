package storetest_test

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestWireCountsRoundTrips(t *testing.T) {
	t.Parallel()
	wire, _, client := session(t)
	if wire.RoundTrips() != 0 || wire.Count(storetest.KindConnect) != 1 {
		t.Errorf("after the start: %v", wire.Statements())
	}
	must(t, client.query("ONE"))
	other := connect(t, wire.Addr())
	must(t, other.query("TWO"))
	if wire.RoundTrips() != 2 || wire.Open() != 2 {
		t.Errorf("%d round trips, %d open", wire.RoundTrips(), wire.Open())
	}
	if s := wire.Ran()[1]; s.Conn != 2 || s.Backend != 7002 || s.Run != 2 || s.RoundTrip != 2 ||
		s.String() != `conn 2 trip 2 query "TWO"` {
		t.Errorf("%+v", s)
	}
}

func TestWireResetForgetsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	wire, _, client := session(t)
	trip := wire.Hold(storetest.Any)
	client.send("ONE")
	trip.Await(t)
	wire.Reset()
	trip.Release()
	must(t, client.untilReady())
	if len(wire.Statements()) != 0 || wire.RoundTrips() != 0 {
		t.Errorf("%v, %d", wire.Statements(), wire.RoundTrips())
	}
	must(t, client.query("TWO"))
	if s := wire.Ran()[0]; s.Run != 1 || s.RoundTrip != 1 || wire.RoundTrips() != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWireCutsRefusesAndRetargets(t *testing.T) {
	t.Parallel()
	wire, old, client := session(t)
	wire.Refuse()
	must(t, client.query("ONE")) // what is open stays
	refused(t, wire.Addr())
	next := newFakePostgres(t)
	wire.Retarget(next.addr)
	wire.Resume()
	must(t, client.query("TWO")) // at the old server
	wire.CutAll()
	if err := client.query("THREE"); err == nil {
		t.Error("a connection that was cut")
	}
	must(t, connect(t, wire.Addr()).query("FOUR"))
	old.next(t, "ONE")
	old.next(t, "TWO")
	old.none(t)
	next.next(t, "FOUR")
	if wire.Dropped() != 1 {
		t.Errorf("dropped %d", wire.Dropped())
	}
	wire.Retarget("127.0.0.1:1") // nobody listens
	refused(t, wire.Addr())
}

func TestWireAnswersNoToTLS(t *testing.T) {
	t.Parallel()
	server := newFakePostgres(t)
	wire := storetest.NewWire(t, storetest.PostgresWire, server.addr)
	client := dial(t, wire.Addr())
	for _, code := range []uint32{80877103, 80877104} { // TLS, GSSAPI
		_, _ = client.Write(message(0, binary.BigEndian.AppendUint32(nil, code))[1:])
		answer := make([]byte, 1)
		if _, err := io.ReadFull(client, answer); err != nil || answer[0] != 'N' {
			t.Fatalf("%v: %q", err, answer)
		}
	}
	must(t, client.startup())
	must(t, client.query("ONE"))
}

func TestWireForwardsCancelRequests(t *testing.T) {
	t.Parallel()
	wire, server, _ := session(t)
	client := dial(t, wire.Addr())
	request := binary.BigEndian.AppendUint32(nil, 80877102)
	request = append(binary.BigEndian.AppendUint32(request, 7001), 1, 2, 3, 4)
	_, _ = client.Write(message(0, request)[1:])
	// The fake server takes it for a startup; a real one closes.
	must(t, client.untilReady())
	cancel := wire.Statements()[1]
	if cancel.Kind != storetest.KindCancel || cancel.Backend != 7001 || cancel.Conn != 2 {
		t.Errorf("%+v", cancel)
	}
	_ = client.Close()
	finish(t, "the server's connection", server.gone)
}

// What the wire cannot read fails the test, with the reason.
func TestWireFailsOnTLSAndCompressionOfMySQL(t *testing.T) {
	t.Parallel()
	for word, capability := range map[string]uint32{"TLS": 1 << 11, "compression": 1 << 5} {
		server := newFakePostgres(t) // says nothing first
		said := failures(t, func(tb testing.TB) {
			wire := storetest.NewWire(tb, storetest.MySQLWire, server.addr)
			client := dial(t, wire.Addr())
			login := binary.LittleEndian.AppendUint32(nil, capability|1)
			_, _ = client.Write(slices.Concat([]byte{32, 0, 0, 1}, login, make([]byte, 28)))
			_, _ = io.ReadAll(client) // until it is closed
		})
		if !strings.Contains(said, "cannot read through") || !strings.Contains(said, word) {
			t.Errorf("%s: %q", word, said)
		}
	}
}

func TestNewWireRefusesAnUnknownProtocol(t *testing.T) {
	t.Parallel()
	if said := failures(t, func(tb testing.TB) { storetest.NewWire(tb, 0, "127.0.0.1:1") }); !strings.Contains(said, "protocol 0") {
		t.Errorf("%q", said)
	}
}

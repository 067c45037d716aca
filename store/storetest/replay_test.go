package storetest_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// recording is a conversation between a driver and a server, and what a wire
// between them shows. In its file, ">" stands before what the client sent, "<"
// before what the server sent, both in hex, and "=" before a statement.
type recording struct {
	turns []turn
	shown []string
}

type turn struct {
	client bool
	bytes  []byte
}

const recordings = "testdata/wire"

func readRecording(t *testing.T, file string) (r recording) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		mark, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch mark {
		case "=":
			r.shown = append(r.shown, rest)
		case ">", "<":
			sent, err := hex.DecodeString(rest)
			if err != nil {
				t.Fatal(err)
			}
			r.turns = append(r.turns, turn{mark == ">", sent})
		}
	}
	return r
}

// play takes one side of the conversation: it sends that side's bytes, and
// expects exactly the other's.
func (r recording) play(conn net.Conn, client bool) error {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	for i, turn := range r.turns {
		if turn.client == client {
			if _, err := conn.Write(turn.bytes); err != nil {
				return err
			}
			continue
		}
		got := make([]byte, len(turn.bytes))
		if _, err := io.ReadFull(conn, got); err != nil {
			return fmt.Errorf("turn %d: %w", i, err)
		}
		if !bytes.Equal(got, turn.bytes) {
			return fmt.Errorf("turn %d: got %x, want %x", i, got, turn.bytes)
		}
	}
	return nil
}

// What was recorded between real drivers and servers passes unchanged, and is
// shown as when it was recorded; the same when each answer is kept until it is
// whole, for which its end must be found.
func TestWireReplaysRecordings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(recordings + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		for name, keep := range map[string]bool{"passing": false, "keeping": true} {
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				t.Parallel()
				replay(t, file, keep)
			})
		}
	}
}

func replay(t *testing.T, file string, keep bool) {
	t.Helper()
	r := readRecording(t, file)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	played := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			err = r.play(conn, false)
		}
		played <- err
	}()
	protocol := storetest.PostgresWire
	if strings.Contains(file, "mysql") {
		protocol = storetest.MySQLWire
	}
	wire := storetest.NewWire(t, protocol, listener.Addr().String())
	if keep {
		wire.On(storetest.Any, storetest.Fault{After: true, Times: -1})
	}
	if err := r.play(dial(t, wire.Addr()), true); err != nil {
		t.Errorf("client: %v", err)
	}
	if err := <-played; err != nil {
		t.Errorf("server: %v", err)
	}
	wantEqual(t, "statements", shown(wire), r.shown)
	trips := 0
	for _, s := range wire.Statements() {
		trips = max(trips, s.RoundTrip)
	}
	if wire.RoundTrips() != trips {
		t.Errorf("%d of %d round trips have ended", wire.RoundTrips(), trips)
	}
}

func shown(wire *storetest.Wire) []string {
	var lines []string
	for _, s := range wire.Statements() {
		lines = append(lines, s.String())
	}
	return lines
}

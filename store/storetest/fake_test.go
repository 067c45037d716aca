package storetest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeT is a test inside a test: it keeps what it is told instead of failing.
type fakeT struct {
	testing.TB
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

// failures runs f as a test of its own, with its cleanups, and returns what
// made it fail.
func failures(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	fake := &fakeT{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	for _, cleanup := range slices.Backward(fake.cleanups) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			cleanup()
		}()
		<-done
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	return strings.Join(fake.said, "\n")
}

func (f *fakeT) Helper()                   {}
func (f *fakeT) Cleanup(clean func())      { f.cleanups = append(f.cleanups, clean) }
func (f *fakeT) Fatal(args ...any)         { f.Error(args...); runtime.Goexit() }
func (f *fakeT) Error(args ...any)         { f.Errorf("%s", fmt.Sprint(args...)) }
func (f *fakeT) Fatalf(s string, a ...any) { f.Errorf(s, a...); runtime.Goexit() }
func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// fakePostgres is a server that takes simple queries and does nothing.
type fakePostgres struct {
	addr string
	got  chan string   // the texts of queries, as they arrive
	gone chan struct{} // one for each connection that ended
}

func newFakePostgres(t *testing.T) *fakePostgres {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakePostgres{addr: listener.Addr().String(), got: make(chan string, 100), gone: make(chan struct{}, 100)}
	var running sync.WaitGroup
	running.Go(func() {
		for pid := uint32(7001); ; pid++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				s.serve(conn, pid)
				_ = conn.Close()
				s.gone <- struct{}{}
			})
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return s
}

func (s *fakePostgres) serve(conn net.Conn, pid uint32) {
	if _, err := readMessage(conn, 0); err != nil {
		return
	}
	key := binary.BigEndian.AppendUint32(nil, pid)
	_, _ = conn.Write(slices.Concat(message('R', make([]byte, 4)), message('K', append(key, 1, 2, 3, 4)), message('Z', []byte("I"))))
	for {
		msg, err := readMessage(conn, 1)
		if err != nil || msg[0] != 'Q' {
			return
		}
		s.got <- strings.TrimRight(string(msg[5:]), "\x00")
		_, _ = conn.Write(slices.Concat(message('C', []byte("DONE\x00")), message('Z', []byte("I"))))
	}
}

// next waits for a query.
func (s *fakePostgres) next(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s.got:
		if got != want {
			t.Errorf("the server got %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the server did not get %q", want)
	}
}

// none fails when the server got a query that no one waited for.
func (s *fakePostgres) none(t *testing.T) {
	t.Helper()
	select {
	case got := <-s.got:
		t.Errorf("the server got %q", got)
	default:
	}
}

// fakeClient speaks to a PostgreSQL server in simple queries.
type fakeClient struct{ net.Conn }

func dial(t *testing.T, addr string) *fakeClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &fakeClient{conn}
}

// connect opens a session.
func connect(t *testing.T, addr string) *fakeClient {
	t.Helper()
	c := dial(t, addr)
	if err := c.startup(); err != nil {
		t.Fatal(err)
	}
	return c
}

// refused fails when a session can be opened.
func refused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return // the reset came before the dial had ended
	}
	defer conn.Close()
	if err := (&fakeClient{conn}).startup(); err == nil {
		t.Error("a session was opened")
	}
}

func (c *fakeClient) startup() error {
	body := append([]byte{0, 3, 0, 0}, "user\x00me\x00\x00"...)
	_, _ = c.Write(message(0, body)[1:])
	return c.untilReady()
}

func (c *fakeClient) send(text string) { _, _ = c.Write(message('Q', []byte(text+"\x00"))) }

func (c *fakeClient) query(text string) error {
	c.send(text)
	return c.untilReady()
}

func (c *fakeClient) untilReady() error {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		msg, err := readMessage(c, 1)
		if err != nil || msg[0] == 'Z' {
			return err
		}
	}
}

// silent fails unless nothing comes for a moment.
func (c *fakeClient) silent(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func message(kind byte, body []byte) []byte {
	return slices.Concat([]byte{kind}, binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body)
}

func readMessage(r io.Reader, extra int) ([]byte, error) {
	head := make([]byte, 4+extra)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[extra:])-4)
	_, err := io.ReadFull(r, body)
	return slices.Concat(head, body), err
}

// finish waits for something with a bound.
func finish(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("not done: ", what)
	}
}

// wantEqual names the first line in which two lists differ.
func wantEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if g, w := at(got, i), at(want, i); g != w {
			t.Errorf("%s: %d of %d is %s, want %s of %d", what, i+1, len(got), g, w, len(want))
			return
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}

package storetest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Protocol is the client/server protocol that a [Wire] understands.
type Protocol int

const (
	// PostgresWire is version 3 of PostgreSQL's protocol; also pgbouncer's.
	PostgresWire Protocol = iota + 1
	// MySQLWire is the protocol of MySQL and MariaDB.
	MySQLWire
)

const (
	dialTimeout = 5 * time.Second
	// closeTimeout is how long the cleanup waits for the wire's goroutines:
	// only a Fault.Call that does not return can keep one.
	closeTimeout = 10 * time.Second
)

// Wire is a TCP proxy in this process, between a driver and a real server. It
// reads the protocol, so that it can list statements, count round trips, and
// put a fault in before or after a chosen statement.
//
// It does not see through TLS or compression and fails the test when a client
// asks for them (PostgreSQL's sslmode=prefer is answered with "no").
//
// All methods may be called concurrently, also from a [Fault]'s Call. The
// wire belongs to its test: it closes in t.Cleanup and waits for its
// goroutines.
type Wire struct {
	t        testing.TB
	protocol Protocol
	listener net.Listener
	ctx      context.Context // ends the dials under way when the wire closes
	stop     context.CancelFunc
	running  sync.WaitGroup
	dropped  atomic.Int64
	log      record
	faults   armed

	mu       sync.Mutex
	target   string
	refusing bool
	cuts     int // how often CutAll was called: a link dialled before it is cut too
	accepted int
	links    map[*link]struct{}
}

// NewWire starts a proxy to target ("host:port"). The driver connects to
// [Wire.Addr] instead.
func NewWire(t testing.TB, protocol Protocol, target string) *Wire {
	t.Helper()
	if protocol != PostgresWire && protocol != MySQLWire {
		t.Fatalf("storetest: NewWire with unknown protocol %d", protocol)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("storetest: wire: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Wire{
		t: t, protocol: protocol, listener: listener, ctx: ctx, stop: stop,
		target: target, links: map[*link]struct{}{},
	}
	w.running.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

// Addr is where the driver must connect to, as "host:port".
func (w *Wire) Addr() string { return w.listener.Addr().String() }

// CutAll drops every connection, also black-holed ones.
func (w *Wire) CutAll() {
	for _, l := range w.cutting() {
		l.cut()
	}
}

// Refuse drops new connections as soon as they are made, until [Wire.Resume].
// Those that are open stay.
func (w *Wire) Refuse() { w.set(func() { w.refusing = true }) }

// Resume takes new connections again.
func (w *Wire) Resume() { w.set(func() { w.refusing = false }) }

// Retarget sends new connections to another server. Those that are open stay
// with the old one: a fail-over is Retarget, then [Wire.CutAll].
func (w *Wire) Retarget(target string) { w.set(func() { w.target = target }) }

// Dropped counts the connections that the wire cut by itself, by a fault or by
// [Wire.CutAll], since the last [Wire.Reset]; not those of cancel requests,
// which some drivers (pgx) send whenever they lose a connection.
func (w *Wire) Dropped() int { return int(w.dropped.Load()) }

// Open counts the connections that are open now.
func (w *Wire) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.links)
}

func (w *Wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *Wire) cutting() []*link {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
	links := make([]*link, 0, len(w.links))
	for l := range w.links {
		links = append(links, l)
	}
	return links
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.accepted++
		id, target, cuts, refusing := w.accepted, w.target, w.cuts, w.refusing
		w.mu.Unlock()
		if refusing {
			abort(client)
			continue
		}
		w.running.Go(func() { w.serve(id, client, target, cuts) })
	}
}

// serve owns one connection from its dial to its end.
func (w *Wire) serve(id int, client net.Conn, target string, cuts int) {
	server, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(w.ctx, "tcp", target)
	if err != nil {
		abort(client)
		return
	}
	l := newLink(w, id, client, server)
	defer w.set(func() { delete(w.links, l) })
	alive := false
	w.set(func() {
		if alive = w.ctx.Err() == nil && w.cuts == cuts; alive {
			w.links[l] = struct{}{}
		}
	})
	if !alive {
		l.cut()
		return
	}
	l.run()
}

// abort ends a connection as a closed port would: with a reset.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (w *Wire) close() {
	w.stop()
	_ = w.listener.Close()
	w.CutAll()
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		w.t.Errorf("storetest: the wire's goroutines still run %v after its end: a Fault.Call that does not return?", closeTimeout)
	}
}

// problem fails the test: the wire met something that it cannot read.
func (w *Wire) problem(l *link, err error) {
	w.t.Errorf("storetest: wire: %v", fmt.Errorf("connection %d: %w", l.id, err))
}

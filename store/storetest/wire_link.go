package storetest

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// link is one client connection and its connection to the server. Two
// goroutines carry it: upstream, which reads the client and plays the faults
// before a statement, and downstream, which reads the server and plays those
// after it.
type link struct {
	wire           *Wire
	id             int
	client, server net.Conn
	codec          codec
	backend        atomic.Uint32
	dark           atomic.Bool // black-holed: both goroutines read on and drop all
	cancels        atomic.Bool // carries a CancelRequest instead of a session
	ended          chan struct{}
	once           sync.Once

	mu      sync.Mutex
	pending []*request // sent, and not yet answered in full
}

func newLink(w *Wire, id int, client, server net.Conn) *link {
	l := &link{wire: w, id: id, client: client, server: server, ended: make(chan struct{})}
	if w.protocol == PostgresWire {
		l.codec = newPostgresCodec(l.backend.Store)
	} else {
		l.codec = newMySQLCodec(l.backend.Store)
		// MySQL's server speaks first.
		l.pending = append(l.pending, &request{answer: &mysqlGreeting{backend: l.backend.Store}})
	}
	return l
}

func (l *link) run() {
	var down sync.WaitGroup
	defer down.Wait()
	down.Go(l.downstream)
	clean := false
	// A Fault.Call may leave by runtime.Goexit (t.FailNow).
	defer func() {
		if !clean {
			l.close()
		}
	}()
	l.upstream()
	clean = true
}

func (l *link) upstream() {
	in := bufio.NewReaderSize(l.client, 16<<10)
	for {
		req, err := l.codec.request(in)
		if err != nil {
			l.clientGone(err)
			return
		}
		if l.dark.Load() {
			continue
		}
		if !l.forward(req) {
			return
		}
	}
}

// clientGone tells the server that the client hung up, unless the link is a
// black hole. What the server still says is read and dropped by downstream.
func (l *link) clientGone(err error) {
	if errors.Is(err, errOpaque) {
		l.wire.problem(l, err)
		l.close()
		return
	}
	if tcp, ok := l.server.(*net.TCPConn); ok && !l.dark.Load() {
		_ = tcp.CloseWrite()
	}
}

// forward lets a request travel, and reports whether the link goes on.
func (l *link) forward(req *request) bool {
	for i := range req.statements {
		s := &req.statements[i]
		s.Conn = l.id
		if s.Kind == KindCancel { // it names the backend that it aims at
			l.cancels.Store(true)
			continue
		}
		s.Backend = l.backend.Load()
	}
	l.wire.log.add(req)
	before, after := l.wire.faults.meet(req)
	if !l.play(before) {
		return false
	}
	switch {
	case l.dark.Load():
		return true
	case req.reply != nil:
		_, _ = l.client.Write(req.reply)
		return true
	case req.answer != nil:
		req.after = after
		l.mu.Lock()
		l.pending = append(l.pending, req)
		l.mu.Unlock()
	}
	// A dead server shows on its own side: downstream hands over its last
	// words and closes.
	_, _ = l.server.Write(req.raw)
	return req.answer != nil || l.play(after)
}

func (l *link) downstream() {
	// A black-holed client does not learn that the server has gone.
	defer func() {
		if !l.dark.Load() {
			l.close()
		}
	}()
	in := bufio.NewReaderSize(l.server, 16<<10)
	out := bufio.NewWriterSize(l.client, 16<<10)
	var kept []byte // the answer to a request with a fault behind it
	for {
		msg, err := l.codec.message(in)
		if err != nil {
			if !l.dark.Load() {
				_, _ = out.Write(kept)
				_ = out.Flush()
			}
			return
		}
		if l.dark.Load() {
			continue
		}
		req, state := l.settle(msg)
		if req == nil || len(req.after) == 0 {
			_, _ = out.Write(msg)
			if state != answerMore || in.Buffered() == 0 {
				_ = out.Flush()
			}
			continue
		}
		kept = append(kept, msg...)
		if state == answerMore {
			continue
		}
		if state == answerDone && !l.play(req.after) {
			return
		}
		if !l.dark.Load() {
			_, _ = out.Write(kept)
			_ = out.Flush()
		}
		kept = nil
	}
}

// settle shows a message of the server to the oldest request without a full
// answer and returns that request. A round trip is counted here, before the
// client can see its answer.
func (l *link) settle(msg []byte) (*request, answerState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > 0 {
		req := l.pending[0]
		state := req.answer.see(msg)
		if state == answerDone || state == answerOver {
			l.pending = l.pending[1:]
		}
		if state == answerDone {
			l.wire.log.answer(req)
		}
		if state != answerOver {
			return req, state
		}
	}
	return nil, answerMore
}

package storetest

import (
	"fmt"
	"strings"
	"sync"
)

// Kind says what a client asked for, in the same words for every protocol.
type Kind string

// The kinds of [Statement]. "PG" is PostgreSQL's message, the other one
// MySQL's command.
const (
	KindConnect Kind = "connect" // the client's start of a connection
	KindQuery   Kind = "query"   // PG Query; COM_QUERY
	KindPrepare Kind = "prepare" // PG Parse; COM_STMT_PREPARE
	KindExecute Kind = "execute" // PG Bind and Execute; COM_STMT_EXECUTE
	KindClose   Kind = "close"   // PG Close; COM_STMT_CLOSE, which has no answer
	KindCopy    Kind = "copy"    // PG the first CopyData of a COPY; no answer of its own
	KindCopyEnd Kind = "copyend" // PG CopyDone or CopyFail; no answer of its own
	KindSync    Kind = "sync"    // PG a Sync or Flush with nothing listed before it
	KindPing    Kind = "ping"    // PG a Query without SQL ("-- ping", ";"), as drivers send it; COM_PING
	KindReset   Kind = "reset"   // COM_RESET_CONNECTION, COM_CHANGE_USER
	KindQuit    Kind = "quit"    // PG Terminate; COM_QUIT; no answer
	KindCancel  Kind = "cancel"  // PG CancelRequest, a connection of its own
	KindOther   Kind = "other"   // anything else; Text says what
)

// Statement is one thing that a client asked for, as the wire saw it.
type Statement struct {
	// Conn numbers the connections in the order in which they were accepted,
	// from 1, over the life of the wire.
	Conn int
	// Backend is how the server calls the connection: the process id that
	// pg_terminate_backend takes, the connection id that KILL takes. (Behind
	// pgbouncer it is pgbouncer's own.) For a cancel, the backend it aims at.
	Backend uint32
	Kind    Kind
	// Text is the SQL text. That of a prepared statement is repeated at each
	// execute and at its close.
	Text string
	// Run counts from 1, since the last Reset, the statements that run SQL
	// (queries and executes); it is 0 for all others.
	Run int
	// RoundTrip numbers the round trips from 1 since the last Reset, over all
	// connections; statements that travel together share one. It is 0 for what
	// has no answer of its own and for the start of a connection.
	RoundTrip int
}

// Runs reports whether the statement runs SQL, in contrast to pinging, preparing,
// closing or setting up.
func (s Statement) Runs() bool { return s.Kind == KindQuery || s.Kind == KindExecute }

// String shows the statement on one line, its text shortened.
func (s Statement) String() string {
	text := strings.Join(strings.Fields(s.Text), " ")
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return fmt.Sprintf("conn %d trip %d %s %q", s.Conn, s.RoundTrip, s.Kind, text)
}

// Statements lists what clients sent since the last [Wire.Reset], in order,
// also what a fault kept from travelling. Something is listed before the
// server can answer it; only what has no answer may still be on its way.
func (w *Wire) Statements() []Statement { return w.log.list(func(Statement) bool { return true }) }

// Ran lists those of [Wire.Statements] that run SQL; the i-th has Run i+1. It
// is the table for a test that puts a fault at each statement in turn.
func (w *Wire) Ran() []Statement { return w.log.list(Statement.Runs) }

// Count says how many statements of a kind were sent since the last Reset.
func (w *Wire) Count(kind Kind) int {
	return len(w.log.list(func(s Statement) bool { return s.Kind == kind }))
}

// RoundTrips counts the requests that the server has answered since the last
// [Wire.Reset], the start of connections not included. A round trip is, in
// PostgreSQL, all that was sent up to a Query, a Sync or a Flush, and in MySQL
// one command that has an answer. An answer that a fault then dropped counts:
// the server gave it.
func (w *Wire) RoundTrips() int {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.answered
}

// Reset forgets what was seen and counted. Faults stay armed (see
// [Wire.Disarm]), connections stay open, and the texts of prepared statements
// stay known. The answer to something sent before is not counted.
func (w *Wire) Reset() {
	w.log.reset()
	w.dropped.Store(0)
}

// Texts returns the texts of the statements, to compare or to print.
func Texts(statements []Statement) []string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.Text
	}
	return texts
}

// record is what a wire has seen since the last reset.
type record struct {
	mu         sync.Mutex
	epoch      int // counts the resets
	statements []Statement
	runs       int
	trips      int
	answered   int
}

// add numbers the statements of a request and lists them.
func (r *record) add(req *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	req.epoch = r.epoch
	if req.counts {
		r.trips++
	}
	for i := range req.statements {
		s := &req.statements[i]
		if s.Runs() {
			r.runs++
			s.Run = r.runs
		}
		if req.counts {
			s.RoundTrip = r.trips
		}
	}
	r.statements = append(r.statements, req.statements...)
}

// answer counts the round trip of a request.
func (r *record) answer(req *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.counts && req.epoch == r.epoch {
		r.answered++
	}
}

func (r *record) list(want func(Statement) bool) []Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Statement
	for _, s := range r.statements {
		if want(s) {
			found = append(found, s)
		}
	}
	return found
}

func (r *record) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	r.statements, r.runs, r.trips, r.answered = nil, 0, 0, 0
}

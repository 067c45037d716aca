package storetest

import "time"

// End is how a [Fault] leaves the connection.
type End int

const (
	// Pass goes on as if nothing had happened.
	Pass End = iota
	// Cut closes the connection on both sides.
	Cut
	// BlackHole swallows everything both ways from now on and closes nothing:
	// neither side learns when the other hangs up. [Wire.CutAll] ends it.
	BlackHole
)

// Fault says what happens at a statement: Call, then Delay, then Hold, then
// End, each if set.
//
// Statements that travel together share their fate: a fault before one of them
// keeps all of them back, a fault after one waits for the answer to all.
type Fault struct {
	// After puts the fault behind the statement: the server has executed it
	// and answered in full, and nothing of the answer has reached the client.
	// For what has no answer it means: after its bytes were sent. (A COPY FROM
	// STDIN is answered when its data has ended.) Default: before any of its
	// bytes travels.
	After bool
	// Call runs at this point, on a goroutine of the wire: for instance to
	// kill Statement.Backend. The statement, or its answer, stays here until
	// it returns; before a statement, what the server says meanwhile by itself
	// (that it was killed) still reaches the client.
	Call func(Statement)
	// Delay is how long the bytes stay here.
	Delay time.Duration
	// Hold keeps the bytes here until [Trip.Release]. They travel then even if
	// the client has gone meanwhile, as bytes in a slow network do.
	Hold bool
	// End is how the connection goes on. Default [Pass].
	End End
	// Times is how often the fault happens, at most once for each request.
	// Default 1; negative: every time.
	Times int
}

// On arms a fault for the statements that match. Several that match one
// statement happen in the order in which they were armed.
func (w *Wire) On(match Match, fault Fault) *Trip {
	if fault.Times == 0 {
		fault.Times = 1
	}
	trip := &Trip{match: match, fault: fault, reached: make(chan struct{}), released: make(chan struct{})}
	w.faults.add(trip)
	return trip
}

// CutBefore cuts the connection before the next matching statement travels to
// the server.
func (w *Wire) CutBefore(match Match) *Trip { return w.On(match, Fault{End: Cut}) }

// CutAfter lets the server execute the next matching statement, waits for its
// answer, and cuts the connection instead of handing it on.
func (w *Wire) CutAfter(match Match) *Trip { return w.On(match, Fault{After: true, End: Cut}) }

// BlackHole goes silent at the next matching statement, which does not travel.
func (w *Wire) BlackHole(match Match) *Trip { return w.On(match, Fault{End: BlackHole}) }

// BlackHoleAfter lets the server execute the next matching statement and
// swallows its answer and all that follows.
func (w *Wire) BlackHoleAfter(match Match) *Trip {
	return w.On(match, Fault{After: true, End: BlackHole})
}

// Hold keeps the next matching statement back until [Trip.Release].
func (w *Wire) Hold(match Match) *Trip { return w.On(match, Fault{Hold: true}) }

// Disarm removes every fault and releases what is held. A connection that is
// black-holed stays so; see [Wire.CutAll].
func (w *Wire) Disarm() {
	for _, trip := range w.faults.clear() {
		trip.Release()
	}
}

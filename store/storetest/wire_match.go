package storetest

import (
	"strings"
	"sync"
)

// Match chooses statements. It is called from the wire's goroutines.
type Match func(Statement) bool

// Any matches everything that clients send.
func Any(Statement) bool { return true }

// Running matches a statement that runs SQL and whose text contains part,
// whatever the case.
func Running(part string) Match {
	part = strings.ToLower(part)
	return func(s Statement) bool { return s.Runs() && strings.Contains(strings.ToLower(s.Text), part) }
}

// NthRun matches the n-th statement that runs SQL after a [Wire.Reset], from 1.
func NthRun(n int) Match { return func(s Statement) bool { return s.Runs() && s.Run == n } }

// NthRoundTrip matches the n-th round trip after a [Wire.Reset], from 1: also
// one that only prepares.
func NthRoundTrip(n int) Match { return func(s Statement) bool { return s.RoundTrip == n } }

// OfKind matches statements of one kind.
func OfKind(kind Kind) Match { return func(s Statement) bool { return s.Kind == kind } }

// hit is a fault that a request has met, and the statement that met it.
type hit struct {
	trip      *Trip
	statement Statement
}

// armed is the list of a wire's faults.
type armed struct {
	mu    sync.Mutex
	trips []*Trip
}

func (a *armed) add(trip *Trip) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trips = append(a.trips, trip)
}

func (a *armed) clear() []*Trip {
	a.mu.Lock()
	defer a.mu.Unlock()
	trips := a.trips
	a.trips = nil
	return trips
}

func (a *armed) list() []*Trip {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*Trip(nil), a.trips...)
}

// meet finds the faults of a request. It holds no lock while it asks a Match,
// which may look at the wire itself.
func (a *armed) meet(req *request) (before, after []hit) {
	for _, trip := range a.list() {
		for _, s := range req.statements {
			if !trip.match(s) {
				continue
			}
			if trip.claim() {
				if h := (hit{trip, s}); trip.fault.After {
					after = append(after, h)
				} else {
					before = append(before, h)
				}
			}
			break
		}
	}
	return before, after
}

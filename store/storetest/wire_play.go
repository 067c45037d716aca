package storetest

import "time"

// play makes faults happen, and reports whether the link goes on.
func (l *link) play(hits []hit) bool {
	for _, h := range hits {
		fault := h.trip.fault
		h.trip.hit() // before the client can notice
		if fault.Call != nil {
			fault.Call(h.statement)
		}
		if fault.Delay > 0 && !l.wait(fault.Delay) {
			return false
		}
		if fault.Hold {
			h.trip.reach()
			select {
			case <-h.trip.released:
			case <-l.ended:
				return false
			}
		}
		goesOn := l.end(fault.End)
		h.trip.reach()
		if !goesOn || l.dark.Load() {
			return goesOn
		}
	}
	return true
}

// end leaves the link as a fault says, and reports whether it goes on.
func (l *link) end(end End) bool {
	switch end {
	case Cut:
		l.cut()
		return false
	case BlackHole:
		l.dark.Store(true)
	}
	return true
}

func (l *link) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// cut closes the link as a fault does: it is counted before anyone can notice.
func (l *link) cut() {
	l.once.Do(func() {
		if !l.cancels.Load() {
			l.wire.dropped.Add(1)
		}
		l.shut()
	})
}

func (l *link) close() { l.once.Do(l.shut) }

func (l *link) shut() {
	close(l.ended)
	_ = l.client.Close()
	_ = l.server.Close()
}

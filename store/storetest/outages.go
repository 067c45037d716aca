package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// outages are the scenarios of a store that is not there, and of a process that
// ends in the middle.
func outages() []scenario {
	return []scenario{
		{name: "a store that cannot be reached is an error within the bound", on: wired, run: unreachable},
		{name: "connections that died in the pool cost one attempt at most", on: wired, run: deadPool},
		{name: "a claim that can never work sends nothing", on: wired, run: nothingSent},
		{name: "B13 a process that is killed in its handler leaves no claim", on: processes, run: killedHolder},
	}
}

func unreachable(t testing.TB, h Harness) {
	p, wire := wiredPlace(t, h, 2)
	wire.Refuse()
	wire.CutAll()
	c := p.claim("m1")
	c.Bounds.Acquire = time.Second
	for range 2 {
		began := time.Now()
		_, err := p.s.Do(t.Context(), c, p.never)
		fails(t, err, store.ErrUnavailable, store.ClassTransient)
		if took := time.Since(began); took > c.Bounds.Acquire+h.wait()+2*time.Second+margin {
			t.Errorf("it took %v", took)
		}
	}
	if err := p.s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Ping: %v", err)
	}
	// A store that never reached its database.
	fresh, other := h.Wire(t, 1)
	other.Refuse()
	_, err := fresh.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	for what, err := range map[string]error{"Migrate": fresh.Migrate(t.Context()), "Ping": fresh.Ping(t.Context())} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.holds(0, 0)
	wire.Resume()
	r, err := p.do(p.claim("m1"))
	isNew(t, r, err)
	p.holds(1, 1)
}

func deadPool(t testing.TB, h Harness) {
	p, wire := wiredPlace(t, h, 4)
	crowd(4, func(i int) { // four connections that are idle then
		_, _ = p.s.Do(t.Context(), p.patient("warm"), effect("warm"))
	})
	wire.CutAll()
	for i := range 5 {
		c := p.patient(string(rune('a' + i)))
		_, err := p.s.Do(t.Context(), c, effect("x"))
		if err != nil {
			// It may find one that is dead; the message comes again.
			if store.ClassOf(err) != store.ClassTransient {
				t.Errorf("the error is %v's: %v", store.ClassOf(err), err)
			}
			_, err = p.s.Do(t.Context(), c, effect("x"))
			for again := 0; err != nil && again < 4; again++ {
				_, err = p.s.Do(t.Context(), c, effect("x"))
			}
		}
		if err != nil {
			t.Errorf("attempts go on failing: %v", err)
		}
	}
	if n := p.number("SELECT COUNT(*) FROM effects WHERE name = 'x'"); n != 5 {
		t.Errorf("%d effects of 5 messages", n)
	}
}

func nothingSent(t testing.TB, h Harness) {
	p, wire := wiredPlace(t, h, 1)
	for _, c := range []store.Claim{{Consumer: consumer}, {Key: "m1"}, {Consumer: "a\x00", Key: "m1"}, {Consumer: consumer, Key: "m1", Wait: -1}} {
		_, err := p.s.Do(t.Context(), c, p.never)
		fails(t, err, store.ErrInvalid, store.ClassPermanent)
	}
	if sent := wire.Statements(); len(sent) > 0 {
		t.Errorf("sent: %v", sent)
	}
}

func killedHolder(t testing.TB, h Harness) {
	p := open(t, h, 2)
	holder := spawn(t)
	if err := holder.tell("hold", h.DSN(p.s)); err != nil {
		t.Fatal(err)
	}
	if answer := holder.answer(); answer != "done" { // it is in its handler
		t.Fatal(answer)
	}
	_, err := p.s.Do(t.Context(), p.claim("held"), p.never)
	fails(t, err, store.ErrInFlight, store.ClassTransient)
	holder.kill()
	r, err := p.do(p.patient("held"))
	isNew(t, r, err)
	p.holds(1, 1)
	if n := p.number("SELECT COUNT(*) FROM effects WHERE name = 'child'"); n != 0 {
		t.Error("the killed process left its effect")
	}
}

package once_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

func delaying() message.HandlerMiddleware {
	return (&middleware.DelayOnError{InitialInterval: time.Minute, MaxInterval: time.Hour, Multiplier: 2}).Middleware
}

// doomed hides that a statement failed when the message is "doomed", so that
// the commit is refused after every middleware inside has seen a success.
func doomed(msg *message.Message, _ int) error {
	switch msg.UUID {
	case "doomed":
		_ = effectOf(msg) // the second one, which violates the key
		return nil
	case "failed":
		return errBusiness
	}
	return nil
}

func delayOutside(t *testing.T, r *rig) {
	r.outside(t, doomed, r.poison(t), delaying())
	r.send(t, "good", "failed", "doomed")
	wantDelays(t, r, map[string]string{"failed": "1m0s", "doomed": "1m0s"})
}

// delayInside: the commit that was refused comes without a delay.
func delayInside(t *testing.T, r *rig) {
	r.inside(t, doomed, delaying())
	r.send(t, "good", "failed", "doomed")
	wantDelays(t, r, map[string]string{"failed": "1m0s", "doomed": ""})
}

// wantDelays looks at what was published again: gochannel redelivers a copy of
// the message as it was first published.
func wantDelays(t *testing.T, r *rig, want map[string]string) {
	t.Helper()
	r.want(t, state{
		runs: 3, effects: 1, claims: []string{"good"}, acked: 3, dead: 2,
		outcomes: []once.Outcome{once.Processed, once.Failed, once.Failed},
	})
	got := map[string]string{}
	for _, msg := range r.letters() {
		got[msg.UUID] = msg.Metadata.Get(delay.DelayedForKey)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the delays are %v, want %v", got, want)
	}
}

func correlationOutside(t *testing.T, r *rig) {
	correlation(t, r, func(h script) { r.outside(t, h, r.poison(t), middleware.CorrelationID) })
}

func correlationInside(t *testing.T, r *rig) {
	correlation(t, r, func(h script) { r.inside(t, h, middleware.CorrelationID) })
}

func correlation(t *testing.T, r *rig, run func(script)) {
	t.Helper()
	var seen []string
	run(func(msg *message.Message, _ int) error {
		seen = append(seen, middleware.MessageCorrelationID(msg))
		return failBad(msg, 0)
	})
	for _, id := range []string{"good", "bad", "good"} {
		msg := message.NewMessage(id, []byte(id))
		middleware.SetCorrelationID("c-"+id, msg)
		r.bus.publish(t, "t", msg)
		rest()
	}
	r.want(t, state{
		runs: 2, effects: 1, claims: []string{"good"}, acked: 3, dead: 1,
		outcomes: []once.Outcome{once.Processed, once.Failed, once.Duplicate},
	})
	if want := []string{"c-good", "c-bad"}; !reflect.DeepEqual(seen, want) {
		t.Errorf("the handler saw %q", seen)
	}
	if got := middleware.MessageCorrelationID(r.letters()[0]); got != "c-bad" {
		t.Errorf("the dead letter has %q", got)
	}
}

// Outside the guard the id comes after the messages were stored, so the relay
// sends them without it; a duplicate passes it again.
func TestNeighbours_CorrelationIDOfOutputs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ outside, stored bool }{"outside": {true, false}, "inside": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			handle := answer("a")
			if !c.outside {
				handle = middleware.CorrelationID(handle)
			}
			st := setUp(t, s, handle, func(st *stage) {
				st.sink.fail = failTimes(1)
				if c.outside {
					st.router.AddMiddleware(middleware.CorrelationID)
				}
			})
			msg := message.NewMessage("m1", nil)
			middleware.SetCorrelationID("c-1", msg)
			st.bus.publish(t, "t", msg)
			st.wantSent(t, "a")
			if got := middleware.MessageCorrelationID(st.sink.messages()[0]); got != "c-1" {
				t.Errorf("the duplicate sent it with %q", got)
			}
			for _, o := range s.left(fakeKey{"svc/h", "m1"}) {
				if _, stored := o.Metadata[middleware.CorrelationIDMetadataKey]; stored != c.stored {
					t.Errorf("stored with the id: %v", stored)
				}
			}
		})
	}
}

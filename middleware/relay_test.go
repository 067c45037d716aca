package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// relaying runs f in a bubble of synctest with a guard whose relay sends what
// the store holds through out.
func relaying(t *testing.T, out *sink, f func(t *testing.T, g *once.Guard, s *fakeStore, seen *recorder)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, seen := newFake(), &recorder{}
		c := quick()
		c.Observer = seen
		g := newGuard(t, s, c)
		if err := g.Relay(out); err != nil {
			t.Fatal(err)
		}
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, g, s, seen)
	})
}

// left stores outputs as an attempt does that dies behind its commit.
func (o *fakeOutbox) leave(topic string, uuids ...string) {
	for _, uuid := range uuids {
		o.keep(fakeKey{"svc/h", uuid}, []store.Output{{UUID: uuid, Topic: topic, Payload: []byte(uuid)}})
	}
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return names
}

func TestRelay_SendsWhatNobodyElseWill(t *testing.T) {
	out := &sink{}
	relaying(t, out, func(t *testing.T, _ *once.Guard, s *fakeStore, seen *recorder) {
		want := numbered("m", 250)
		s.leave("out", want...)
		elapse(29 * time.Second)
		if n := out.tried(); n != 0 {
			t.Errorf("%d were sent that an attempt may be sending", n)
		}
		elapse(10 * time.Second)
		if err := sameStrings(out.uuids(), want); err != nil {
			t.Error(err)
		}
		if s.unsent() != 0 {
			t.Errorf("%d are left", s.unsent())
		}
		if e := eventsOf[once.Relayed](seen); len(e) != 1 || e[0].Sent != 250 {
			t.Errorf("events %+v", e)
		}
	})
}

// (a) An output that can never be sent, at the head, does not keep the others
// back, and becomes dead with its reason.
func TestB61_ABadOutputStopsNobody(t *testing.T) {
	out := &sink{fail: func(_ string, msg *message.Message) error {
		if strings.HasPrefix(msg.UUID, "bad") {
			return errors.New("the message is too large for the broker")
		}
		return nil
	}}
	relaying(t, out, func(t *testing.T, g *once.Guard, s *fakeStore, seen *recorder) {
		s.leave("out", numbered("bad", 5)...)
		s.leave("out", numbered("good", 200)...)
		elapse(2 * time.Minute)
		if n := len(out.uuids()); n != 200 {
			t.Errorf("%d good ones were sent", n)
		}
		if tried := out.tried(); tried > 280 {
			t.Errorf("%d tries for 205 outputs: it spins", tried)
		}
		for i := range 200 { // others are sent all the time
			s.leave("out", fmt.Sprint("good later ", i))
			elapse(5 * time.Minute)
		}
		dead, err := g.DeadOutputs(t.Context(), 10)
		if err != nil || len(dead) != 5 || dead[0].Reason != "the message is too large for the broker" || dead[0].UUID != "bad000" {
			t.Fatalf("dead: %+v, %v", dead, err)
		}
		if b, _ := g.Backlog(t.Context()); b.Dead != 5 || b.Unsent > 1 {
			t.Errorf("backlog %+v", b)
		}
		var died int
		for _, e := range eventsOf[once.OutputFailed](seen) {
			if e.Dead {
				died++
			}
		}
		if died != 5 {
			t.Errorf("%d events of a death", died)
		}
		out.set(nil)
		if n, err := g.ReviveOutputs(t.Context(), dead[0].ID); n != 1 || err != nil {
			t.Errorf("revived %d, %v", n, err)
		}
		if n, err := g.DropOutputs(t.Context(), dead[1].ID); n != 1 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
		elapse(time.Minute)
		if got := out.uuids(); got[len(got)-1] != "bad000" && got[len(got)-2] != "bad000" {
			t.Error("the revived one was not sent")
		}
		if dead, _ := g.DeadOutputs(t.Context(), 10); len(dead) != 3 {
			t.Errorf("%d are dead", len(dead))
		}
	})
}

// (b) While the publisher is down altogether no attempt is counted, and all is
// sent when it is back.
func TestB61_AnOutageKillsNothing(t *testing.T) {
	out := &sink{fail: func(string, *message.Message) error { return errSink }}
	relaying(t, out, func(t *testing.T, g *once.Guard, s *fakeStore, _ *recorder) {
		want := numbered("m", 300)
		s.leave("out", want...)
		elapse(12 * time.Hour)
		if tried := out.tried(); tried > 12*60*30 {
			t.Errorf("%d tries in 12 hours", tried)
		}
		for _, o := range s.rows {
			if o.Attempts > 0 {
				t.Fatalf("%s has %d attempts", o.UUID, o.Attempts)
			}
		}
		out.set(nil)
		elapse(time.Hour)
		if len(out.uuids()) != 300 || s.unsent() != 0 {
			t.Errorf("%d sent, %d left", len(out.uuids()), s.unsent())
		}
		if dead, _ := g.DeadOutputs(t.Context(), 1); len(dead) > 0 {
			t.Error("one is dead")
		}
	})
}

// A topic that the broker refuses closes itself only.
func TestRelay_ATopicThatIsRefused(t *testing.T) {
	out := &sink{fail: func(topic string, _ *message.Message) error {
		if topic == "refused" {
			return errSink
		}
		return nil
	}}
	relaying(t, out, func(t *testing.T, _ *once.Guard, s *fakeStore, _ *recorder) {
		s.leave("refused", numbered("r", 1000)...)
		s.leave("out", numbered("m", 100)...)
		elapse(40 * time.Second)
		if n := len(out.uuids()); n != 100 {
			t.Errorf("%d of the others were sent", n)
		}
		if tried := out.tried(); tried > 200 {
			t.Errorf("%d tries", tried)
		}
	})
}

func TestRelay_PermanentErrorsAndPanics(t *testing.T) {
	out := &sink{fail: func(_ string, msg *message.Message) error {
		switch msg.UUID {
		case "permanent":
			return once.Permanent(errSink)
		case "panic":
			panic("boom")
		}
		return nil
	}}
	relaying(t, out, func(t *testing.T, g *once.Guard, s *fakeStore, seen *recorder) {
		s.leave("out", "permanent", "panic", "fine")
		elapse(40 * time.Second)
		if err := sameStrings(out.uuids(), []string{"fine"}); err != nil {
			t.Error(err)
		}
		if dead, _ := g.DeadOutputs(t.Context(), 10); len(dead) != 1 || dead[0].UUID != "permanent" {
			t.Errorf("dead: %+v", dead)
		}
		if failed := eventsOf[once.OutputFailed](seen); len(failed) < 2 || !strings.Contains(failed[1].Err.Error(), "boom") {
			t.Errorf("events %+v", failed)
		}
	})
}

// Marking fails behind a sending: the same message may go out again, with the
// same UUID and payload, but not while this process remembers.
func TestB59_TheMarkFails(t *testing.T) {
	out := &sink{}
	relaying(t, out, func(t *testing.T, _ *once.Guard, s *fakeStore, _ *recorder) {
		n := 0
		s.onMark(func([]store.OutputID) error {
			if n++; n == 1 {
				return store.ErrUnavailable
			}
			return nil
		})
		s.leave("out", "a", "b")
		elapse(5 * time.Minute)
		if err := sameStrings(out.uuids(), []string{"a", "b"}); err != nil {
			t.Error(err)
		}
		if s.unsent() != 0 {
			t.Error("they are not marked")
		}
	})
}

// A second process, which does not remember, sends again: at least once, always
// the same.
func TestB59_AnotherProcessSendsTheSame(t *testing.T) {
	out := &sink{}
	relaying(t, out, func(t *testing.T, g *once.Guard, s *fakeStore, _ *recorder) {
		s.onMark(func([]store.OutputID) error { return store.ErrUnavailable })
		s.leave("out", "a")
		elapse(40 * time.Second)
		_ = g.Close(t.Context())
		s.onMark(nil)
		second := newGuard(t, s, quick())
		if err := errors.Join(second.Relay(out), second.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		elapse(2 * time.Minute)
		got := out.messages()
		if len(got) != 2 || got[0].UUID != got[1].UUID || string(got[0].Payload) != string(got[1].Payload) {
			t.Errorf("got %v", got)
		}
		if s.unsent() != 0 {
			t.Error("it is not marked")
		}
	})
}

func TestB59_ABatchWhoseThirdFailsMarksTheFirstTwo(t *testing.T) {
	t.Parallel()
	s := newFake()
	st := prepare(t, s, relayingSoon())
	st.sink.set(func(_ string, msg *message.Message) error {
		if msg.UUID == "c" {
			return errSink
		}
		return nil
	})
	st.router.AddHandler("h", "t", st.bus.channel, "out", st.sink, answer("a", "b", "c"))
	st.router.AddPlugin(st.guard.Plugin)
	st.bus.run(t, st.router)
	st.bus.publish(t, "t", message.NewMessage("m1", nil))
	eventually(t, func() error {
		if left := s.left(fakeKey{"svc/h", "m1"}); len(left) != 1 || left[0].UUID != "c" {
			return fmt.Errorf("left %+v", left)
		}
		return nil
	})
	st.sink.set(nil)
	st.wantSent(t, "a", "b", "c")
}

func TestRelay_WithoutAPublisher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, seen := newFake(), &recorder{}
		c := quick()
		c.Observer = seen
		g := newGuard(t, s, c)
		one, two := &sink{}, &sink{}
		g.Publisher(one)
		g.Publisher(two)
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.leave("out", "a")
		elapse(40 * time.Second)
		failed := eventsOf[once.OutputFailed](seen)
		if len(failed) == 0 || wantError(failed[0].Err, once.ErrNoPublisher, `guard.Relay(publisher, "out")`, "2 publishers") != nil {
			t.Fatalf("events %+v", failed)
		}
		if err := g.Relay(two, "out"); err != nil {
			t.Fatal(err)
		}
		elapse(2 * time.Minute)
		if err := errors.Join(sameStrings(two.uuids(), []string{"a"}), sameStrings(one.uuids(), nil)); err != nil {
			t.Error(err)
		}
	})
}

func TestRelay_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	g := newGuard(t, newFake(), quick())
	for name, err := range map[string]error{"nil": g.Relay(nil), "topic": g.Relay(&sink{}, "a", "")} {
		if !errors.Is(err, once.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Close ends a run of the relay between two outputs and lets the rest go.
func TestRelay_CloseInTheMiddle(t *testing.T) {
	out := &sink{}
	relaying(t, out, func(t *testing.T, g *once.Guard, s *fakeStore, _ *recorder) {
		sending := make(chan struct{})
		out.set(func(_ string, msg *message.Message) error {
			if msg.UUID == "m001" {
				close(sending)
				elapse(2 * time.Second)
			}
			return nil
		})
		s.leave("out", numbered("m", 10)...)
		<-sending
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := sameStrings(out.uuids(), []string{"m000", "m001"}); err != nil {
			t.Error(err)
		}
		for _, o := range s.rows {
			if time.Now().Before(o.leased) {
				t.Fatalf("%s is still leased", o.UUID)
			}
		}
		if s.unsent() != 8 {
			t.Errorf("%d are left", s.unsent())
		}
	})
}

func TestRelay_StoreThatIsAway(t *testing.T) {
	out := &sink{}
	relaying(t, out, func(t *testing.T, _ *once.Guard, s *fakeStore, seen *recorder) {
		s.onLease(func() error { return store.ErrUnavailable })
		s.leave("out", "a")
		elapse(time.Minute)
		if e := eventsOf[once.Relayed](seen); len(e) == 0 || !errors.Is(e[0].Err, store.ErrUnavailable) {
			t.Errorf("events %+v", e)
		}
		s.onLease(nil)
		elapse(10 * time.Second)
		if err := sameStrings(out.uuids(), []string{"a"}); err != nil {
			t.Error(err)
		}
	})
}

// A broker that refuses one output keeps neither the message nor those behind it
// back: after some tries the relay has it.
func TestB61_AnOutputThatIsRefusedBlocksNoMessage(t *testing.T) {
	for name, build := range map[string]func(*stage){
		"returned": func(st *stage) {
			st.router.AddHandler("h", "t", st.bus.channel, "out", st.sink, func(msg *message.Message) ([]*message.Message, error) {
				return []*message.Message{message.NewMessage("of "+msg.UUID, nil), message.NewMessage("second of "+msg.UUID, nil)}, nil
			})
		},
		"published": consumer(func(pub message.Publisher, msg *message.Message) error {
			return pub.Publish("out", derived(msg, "of "+msg.UUID), derived(msg, "second of "+msg.UUID))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			st := setUp(t, s, nil, func(st *stage) {
				st.sink.fail = func(_ string, msg *message.Message) error {
					if msg.UUID == "of bad" {
						return errSink
					}
					return nil
				}
			}, build)
			st.deliver(t, "bad")
			st.deliver(t, "good")
			eventually(t, func() error { // two messages have no order between them
				sent := st.sink.uuids()
				bad := func(uuid string) bool { return strings.HasSuffix(uuid, "bad") }
				return errors.Join(
					sameStrings(slices.DeleteFunc(slices.Clone(sent), bad), []string{"of good", "second of good"}),
					sameStrings(slices.DeleteFunc(sent, func(uuid string) bool { return !bad(uuid) }), []string{"second of bad"}))
			})
			left := s.left(fakeKey{"svc/h", "bad"})
			if !slices.ContainsFunc(left, func(o store.Output) bool { return o.UUID == "of bad" }) {
				t.Errorf("the refused one is not stored any more: %+v", left)
			}
		})
	}
}

// Several services may keep their outputs in the same tables; each relays its
// own, also those from before a handler was renamed.
func TestRelay_SendsItsOwnServicesOutputs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, out := newFake(), &sink{}
		c := quick()
		c.Handlers = map[string]once.HandlerConfig{"h": {Consumer: "old/name"}}
		g := newGuard(t, s, c)
		if err := errors.Join(g.Relay(out), g.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		for _, consumer := range []string{"svc/other", "old/name", "foreign/h"} {
			s.keep(fakeKey{consumer, "k"}, []store.Output{{UUID: consumer, Topic: "out"}})
		}
		elapse(time.Minute)
		if err := sameStrings(out.uuids(), []string{"svc/other", "old/name"}); err != nil {
			t.Error(err)
		}
	})
}

// Two handlers may send to topics of one name on two brokers.
func TestRelay_OneTopicOnTwoBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		g := newGuard(t, s, quick())
		brokers := map[string]*sink{"a": {}, "b": {}}
		for name, out := range brokers {
			pub := g.Publisher(out)
			_, err := g.Do(t.Context(), name, "first", func(ctx context.Context, _ *sqlx.Tx) error {
				return pub.Publish("events", message.NewMessageWithContext(ctx, "sent by "+name, nil))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, consumer := range []string{"svc/a", "svc/b", "svc/c"} {
			s.keep(fakeKey{consumer, "left"}, []store.Output{{UUID: "left by " + consumer, Topic: "events"}})
		}
		elapse(time.Minute)
		for name, out := range brokers {
			if err := sameStrings(out.uuids(), []string{"sent by " + name, "left by svc/" + name}); err != nil {
				t.Error(err)
			}
		}
		if left := s.left(fakeKey{"svc/c", "left"}); len(left) != 1 {
			t.Errorf("where nobody knows, the guard guessed: %v", left)
		}
	})
}

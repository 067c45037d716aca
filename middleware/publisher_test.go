package once_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// consumer adds a handler without a publisher, which publishes by itself.
func consumer(handle func(pub message.Publisher, msg *message.Message) error) func(*stage) {
	return func(st *stage) {
		pub := st.guard.Publisher(st.sink)
		st.router.AddConsumerHandler("h", "t", st.bus.channel, func(msg *message.Message) error { return handle(pub, msg) })
	}
}

func derived(msg *message.Message, uuid string) *message.Message {
	return message.NewMessageWithContext(msg.Context(), uuid, []byte(uuid))
}

// The publisher of a no-publisher handler refuses whatever a duplicate returns,
// so the guard itself sends again.
func TestW03_PublishedOutputsAreResentByTheGuard(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	st := setUp(t, s, nil, func(st *stage) { st.sink.fail = failTimes(1) },
		consumer(func(pub message.Publisher, msg *message.Message) error {
			return errors.Join(effectOf(msg), pub.Publish("one", derived(msg, "a")), pub.Publish("two", derived(msg, "b"), derived(msg, "c")))
		}))
	st.bus.publish(t, "t", message.NewMessage("m1", nil))
	eventually(t, func() error { return sameOutcomes(st, once.Unsent, once.Duplicate) })
	st.wantSent(t, "a", "b", "c")
	s.wantEffects(t, 1)
	if err := sameStrings(st.sink.topics, []string{"one", "two", "two"}); err != nil {
		t.Error(err)
	}
	e := eventsOf[once.AttemptEnded](st.seen)[0]
	if !once.IsTransient(e.Err) || once.Poison(e.Err) {
		t.Errorf("it counts against the message: %v", e.Err)
	}
	if err := wantError(e.Err, once.ErrUnsent, `"one"`, "output 1 of 3"); err != nil {
		t.Error(err)
	}
}

func TestPublisher_NothingIsSentBeforeTheCommit(t *testing.T) {
	t.Parallel()
	s := newFake()
	st := setUp(t, s, nil, func(st *stage) {
		s.commit = func() error {
			if st.sink.tried() > 0 {
				t.Error("sent before the commit")
			}
			return nil
		}
	}, consumer(func(pub message.Publisher, msg *message.Message) error { return pub.Publish("out", derived(msg, "a")) }))
	st.deliver(t, "m1")
	st.wantSent(t, "a")
}

func TestPublisher_WhatIsRolledBackIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	failed := false
	st := setUp(t, s, nil, consumer(func(pub message.Publisher, msg *message.Message) error {
		if err := pub.Publish("out", derived(msg, fmt.Sprint("failed ", failed))); err != nil || failed {
			return err
		}
		failed = true
		return errBusiness
	}))
	st.deliver(t, "m1")
	st.wantSent(t, "failed true")
}

func TestPublisher_SavepointTakesItsOutputsBack(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	st := setUp(t, s, nil, consumer(func(pub message.Publisher, msg *message.Message) error {
		ctx := msg.Context()
		publish := func(uuid string, err error) error {
			return errors.Join(pub.Publish("out", message.NewMessageWithContext(ctx, uuid, nil)), err)
		}
		_ = publish("before", nil)
		if err := once.Savepoint(ctx, func(context.Context) error { return publish("undone", errBusiness) }); !errors.Is(err, errBusiness) {
			return err
		}
		return once.Savepoint(ctx, func(context.Context) error { return publish("kept", nil) })
	}))
	st.deliver(t, "m1")
	st.wantSent(t, "before", "kept")
}

// The caller may use its buffers again once Publish has returned.
func TestPublisher_CopiesTheMessage(t *testing.T) {
	t.Parallel()
	st := setUp(t, newFake(), nil, consumer(func(pub message.Publisher, msg *message.Message) error {
		out := derived(msg, "a")
		out.Metadata.Set("k", "v")
		defer func() {
			out.Payload[0], out.UUID = 'x', "changed"
			out.Metadata.Set("k", "changed")
		}()
		return pub.Publish("out", out)
	}))
	st.deliver(t, "m1")
	st.wantSent(t, "a")
	if got := st.sink.messages()[0]; string(got.Payload) != "a" || got.Metadata.Get("k") != "v" {
		t.Errorf("got %s %v", got.Payload, got.Metadata)
	}
}

func TestPublisher_OutsideOfAHandlerItSendsAtOnce(t *testing.T) {
	t.Parallel()
	out := &sink{}
	pub := newGuard(t, newFake(), quick()).Publisher(out)
	if err := pub.Publish("out", message.NewMessage("a", nil), message.NewMessage("b", nil)); err != nil {
		t.Error(err)
	}
	if err := sameStrings(out.uuids(), []string{"a", "b"}); err != nil {
		t.Error(err)
	}
}

func TestPublisher_RefusedInsideAHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		publish func(pub message.Publisher, msg *message.Message) error
		says    string
	}{
		"a message without the context": {func(pub message.Publisher, _ *message.Message) error {
			return pub.Publish("out", message.NewMessage("a", nil))
		}, "msg.Context()"},
		"one with and one without": {func(pub message.Publisher, msg *message.Message) error {
			return pub.Publish("out", derived(msg, "a"), message.NewMessage("b", nil))
		}, "msg.Context()"},
		"nil": {func(pub message.Publisher, msg *message.Message) error {
			return pub.Publish("out", derived(msg, "a"), nil)
		}, "message 2 of 2"},
		"no topic": {func(pub message.Publisher, msg *message.Message) error {
			return pub.Publish("", derived(msg, "a"))
		}, "topic is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := setUp(t, newFake(), nil, consumer(c.publish))
			st.bus.publish(t, "t", message.NewMessage("m1", nil))
			eventually(t, func() error {
				ended := eventsOf[once.AttemptEnded](st.seen)
				if len(ended) == 0 {
					return errors.New("not yet")
				}
				return wantError(ended[0].Err, once.ErrOutputs, c.says)
			})
			if n := st.sink.tried(); n != 0 {
				t.Errorf("%d messages were sent", n)
			}
		})
	}
}

// A hook may send, since its work is committed. What a failed attempt leaves
// behind may not.
func TestPublisher_BehindTheAttempt(t *testing.T) {
	t.Parallel()
	failed := make(chan context.Context, 1)
	var pub message.Publisher
	st := setUp(t, newFake(), nil, consumer(func(p message.Publisher, msg *message.Message) error {
		if pub == nil {
			pub = p
			failed <- msg.Context()
			return errBusiness
		}
		return once.AfterCommit(msg.Context(), func(ctx context.Context) {
			if err := pub.Publish("out", message.NewMessageWithContext(ctx, "hook", nil)); err != nil {
				t.Error(err)
			}
		})
	}))
	st.deliver(t, "m1")
	st.wantSent(t, "hook")
	if err := pub.Publish("out", message.NewMessageWithContext(<-failed, "late", nil)); wantError(err, once.ErrOutputs, "goroutine") != nil {
		t.Errorf("got %v", err)
	}
	st.wantSent(t, "hook")
}

func TestPublisher_InDo(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	out := &sink{fail: failTimes(1)}
	g := newGuard(t, s, quick())
	pub := g.Publisher(out)
	do := func() (once.Result, error) {
		return g.Do(t.Context(), "webhook", "k", func(ctx context.Context, _ *sqlx.Tx) error {
			if err := pub.Publish("out", message.NewMessage("stray", nil)); !errors.Is(err, once.ErrOutputs) {
				t.Errorf("a stray message: %v", err)
			}
			return errors.Join(effect(ctx, "k"), pub.Publish("out", message.NewMessageWithContext(ctx, "a", nil)))
		})
	}
	if _, err := do(); !errors.Is(err, once.ErrUnsent) {
		t.Errorf("got %v", err)
	}
	if r, err := do(); err != nil || !r.Duplicate {
		t.Errorf("got %+v, %v", r, err)
	}
	s.wantEffects(t, 1)
	if err := sameStrings(out.uuids(), []string{"a"}); err != nil {
		t.Error(err)
	}
}

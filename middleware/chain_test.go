package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

// inside are Watermill's own middlewares, as a user would have them.
func inside(t *testing.T) map[string]struct {
	m       message.HandlerMiddleware
	refused bool
	warned  bool
} {
	t.Helper()
	poison, err := middleware.PoisonQueue(&deadLetters{}, "dead")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]struct {
		m       message.HandlerMiddleware
		refused bool
		warned  bool
	}{
		"Retry":          {m: middleware.Retry{MaxRetries: 3, Logger: watermill.NopLogger{}}.Middleware, refused: true},
		"PoisonQueue":    {m: poison, refused: true},
		"InstantAck":     {m: middleware.InstantAck, refused: true},
		"Duplicator":     {m: middleware.Duplicator, refused: true},
		"Deduplicator":   {m: (&middleware.Deduplicator{Repository: neverSeen{}, KeyFactory: middleware.NewMessageHasherSHA256(64), Timeout: time.Second}).Middleware, refused: true},
		"IgnoreErrors":   {m: middleware.NewIgnoreErrors(nil).Middleware, warned: true},
		"Throttle":       {m: middleware.NewThrottle(1000, time.Second).Middleware, warned: true},
		"CircuitBreaker": {m: newBreaker(time.Hour), warned: true},
		"DelayOnError":   {m: (&middleware.DelayOnError{}).Middleware, warned: true},
		"Timeout":        {m: middleware.Timeout(time.Minute)},
		"Recoverer":      {m: middleware.Recoverer},
		"CorrelationID":  {m: middleware.CorrelationID},
	}
}

type neverSeen struct{}

func (neverSeen) IsDuplicate(context.Context, string) (bool, error) { return false, nil }

func TestW05_B32_B56_WrongNeighbours(t *testing.T) {
	t.Parallel()
	ways := map[string]func(message.HandlerMiddleware) message.HandlerMiddleware{
		"directly": func(m message.HandlerMiddleware) message.HandlerMiddleware { return m },
		"behind a Timeout": func(m message.HandlerMiddleware) message.HandlerMiddleware {
			return func(h message.HandlerFunc) message.HandlerFunc { return middleware.Timeout(time.Minute)(m(h)) }
		},
	}
	for name, c := range inside(t) {
		for way, put := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				s := newSQLiteFake(t)
				seen := &recorder{}
				config := quick()
				config.Observer = seen
				h := newGuard(t, s, config).Middleware(put(c.m)(func(msg *message.Message) ([]*message.Message, error) {
					return nil, effectOf(msg)
				}))
				for i := range 2 {
					msg := deliver(t, "m1", "x")
					_, err := h(msg)
					if c.refused && (!errors.Is(err, once.ErrChain) || once.Poison(err) || !strings.Contains(err.Error(), name)) {
						t.Errorf("attempt %d: got %v", i, err)
					}
					if !c.refused && err != nil {
						t.Errorf("attempt %d: got %v", i, err)
					}
				}
				want, warned := 1, 0
				if c.refused {
					want = 0
				}
				if c.warned {
					warned = 1
				}
				s.wantEffects(t, want)
				if e := eventsOf[once.ChainProblem](seen); !c.refused && len(e) != warned {
					t.Errorf("problems are %+v, want %d", e, warned)
				}
			})
		}
	}
}

func TestChain_InlinedConstructorsAreRecognised(t *testing.T) {
	t.Parallel()
	// Called directly, so that the compiler may inline the constructors and name
	// the closures after this test.
	h := func(*message.Message) ([]*message.Message, error) { return nil, nil }
	g := newGuard(t, newFake(), quick())
	for name, h := range map[string]message.HandlerFunc{
		"Retry":      g.Middleware(middleware.Retry{}.Middleware(h)),
		"InstantAck": g.Middleware(middleware.InstantAck(h)),
		"Duplicator": g.Middleware(middleware.Duplicator(h)),
	} {
		if _, err := h(deliver(t, "m1", "x")); !errors.Is(err, once.ErrChain) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestChain_AHandlerThatHidesTheRefusalIsNotCommitted(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	h := newGuard(t, s, quick()).Middleware(middleware.Timeout(time.Minute)(middleware.Retry{MaxRetries: 1}.Middleware(
		func(msg *message.Message) ([]*message.Message, error) {
			_, _ = once.Tx(msg.Context())
			return nil, nil
		})))
	if _, err := h(deliver(t, "m1", "x")); !errors.Is(err, once.ErrChain) {
		t.Errorf("got %v", err)
	}
	if s.has("svc/h", "m1") {
		t.Error("it was committed")
	}
}

func TestChain_OfANamesakeIsFine(t *testing.T) {
	t.Parallel()
	h := newGuard(t, newFake(), quick()).Middleware(ownRetry{}.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil }))
	if _, err := h(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
}

type ownRetry struct{}

func (ownRetry) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) { return h(msg) }
}

func TestW05_WithThePluginTheGuardIsInnermost(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	b := newBus(t)
	r := b.router(t)
	r.AddPlugin(newGuard(t, s, quick()).Plugin)
	done := make(chan struct{})
	fail := failOnce()
	r.AddConsumerHandler("h", "t", b.channel, func(msg *message.Message) error {
		_, err := fail(msg)
		return errors.Join(err, once.AfterCommit(msg.Context(), func(context.Context) { close(done) }))
	}).AddMiddleware(middleware.Retry{MaxRetries: 3, Logger: watermill.NopLogger{}}.Middleware)
	b.run(t, r)
	b.publish(t, "t", message.NewMessage("m1", nil))
	within(t, done, "the retry")
	s.wantEffects(t, 1)
	if _, commits, rollbacks := s.counts(); commits != 1 || rollbacks != 1 {
		t.Errorf("%d commits, %d rollbacks: the retry shared a transaction", commits, rollbacks)
	}
}

func TestW24_DeadOnArrivalIsTold(t *testing.T) {
	t.Parallel()
	for name, reset := range map[string]bool{"without ResetContextOnRetry": false, "with": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &recorder{}
			c := quick()
			c.Observer = seen
			retry := middleware.Retry{MaxRetries: 2, ResetContextOnRetry: reset, Logger: watermill.NopLogger{}}
			h := retry.Middleware(middleware.Timeout(20 * time.Millisecond)(newGuard(t, newFake(), c).Middleware(
				func(msg *message.Message) ([]*message.Message, error) {
					<-msg.Context().Done()
					return nil, msg.Context().Err()
				})))
			_, err := h(deliver(t, "m1", "x"))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
			e := eventsOf[once.ChainProblem](seen)
			if reset {
				if len(e) != 0 || !once.Poison(err) {
					t.Errorf("events %+v, error %v", e, err)
				}
				return
			}
			if len(e) != 2 || e[0].Problem != once.DeadOnArrival || !strings.Contains(e[0].Fix, "ResetContextOnRetry") {
				t.Errorf("events are %+v", e)
			}
			if once.Poison(err) {
				t.Error("an outage that outlasts the Timeout would empty the topic")
			}
		})
	}
}

func TestChain_SettledBeforeIsTold(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c := quick()
	c.Observer = seen
	h := middleware.InstantAck(newGuard(t, newFake(), c).Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil }))
	if _, err := h(deliver(t, "m1", "x")); err != nil {
		t.Fatal(err)
	}
	if e := eventsOf[once.ChainProblem](seen); len(e) != 1 || e[0].Problem != once.SettledBefore {
		t.Errorf("events are %+v", e)
	}
}

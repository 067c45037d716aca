package once_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestB72_OutcomesAddUpToDeliveries(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	counts := map[string]int{} // what a metric would have: consumer and outcome only
	c := quick()
	c.Observer = once.ObserverFunc(func(_ context.Context, e once.Event) {
		if e, ok := e.(once.AttemptEnded); ok {
			mu.Lock()
			defer mu.Unlock()
			counts[e.Consumer+" "+e.Outcome.String()]++
		}
	})
	g := newGuard(t, newFake(), c)
	h := handle(g, func(msg *message.Message) error {
		switch msg.UUID[0] {
		case 'f':
			return errBusiness
		case 's':
			return once.ErrSkip
		case 'x':
			panic("boom")
		}
		return nil
	})
	for i := range 1000 {
		id := fmt.Sprintf("%c%d", "okfsx"[i%5], i)
		switch i % 10 {
		case 1:
			id = "k0" // one of them is the first
		case 6:
			id = " "
		}
		func() {
			defer func() { _ = recover() }()
			_ = h(deliver(t, id, "x"))
		}()
	}
	want := map[string]int{
		"svc/h processed": 201, "svc/h duplicate": 99, "svc/h no_key": 100,
		"svc/h failed": 200, "svc/h skipped": 200, "svc/h panicked": 200,
	}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("counts are %v, want %v", counts, want)
	}
}

func TestObserver_APanicDoesNoHarm(t *testing.T) { // not parallel: it is logged
	was := slog.Default()
	slog.SetDefault(discard)
	defer slog.SetDefault(was)
	seen := &recorder{}
	c := quick()
	c.Observer = once.Observers(once.ObserverFunc(func(context.Context, once.Event) { panic("boom") }), seen)
	s := newFake()
	if err := handle(newGuard(t, s, c), nothing)(deliver(t, "m1", "x")); err != nil {
		t.Error(err)
	}
	seen.wantOutcomes(t, once.Processed)
}

// logged runs a handler with the default observer and returns what it wrote.
func logged(t *testing.T, s store.Store, times int, h message.NoPublishHandlerFunc) string {
	t.Helper()
	var out bytes.Buffer
	c := quick()
	c.Observer = nil
	c.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	handler := handle(newGuard(t, s, c), h)
	for range times {
		_ = handler(deliver(t, "m1", "the secret payload"))
	}
	return out.String()
}

func TestSlog_Levels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		times   int
		handler message.NoPublishHandlerFunc
		says    []string
	}{
		"processed": {1, nothing, []string{`"level":"DEBUG","msg":"message processed"`, `"outcome":"processed"`, `"consumer":"svc/h"`, `"topic":"t"`, `"message_uuid":"m1"`}},
		"duplicate": {2, nothing, []string{`"level":"INFO","msg":"message is a duplicate"`, `"claimed_at"`, `"age"`}},
		"failed":    {1, func(*message.Message) error { return errBusiness }, []string{`"level":"WARN","msg":"message failed"`, `"class":"handler"`, `no money`, `"backoff"`}},
		"permanent": {1, func(*message.Message) error { return once.Permanent(errBusiness) }, []string{`"level":"ERROR","msg":"message failed"`, `"class":"permanent"`}},
		"unused":    {1, nothing, []string{`"level":"WARN","msg":"the handler sent no statement`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := logged(t, newFake(), c.times, c.handler)
			for _, s := range c.says {
				if !strings.Contains(out, s) {
					t.Errorf("no %s in:\n%s", s, out)
				}
			}
			if strings.Contains(out, "secret") {
				t.Errorf("a payload is logged:\n%s", out)
			}
		})
	}
}

func TestSlog_WhatComesWithEachMessageIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := once.SlogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for range 3 {
		for _, consumer := range []string{"svc/a", "svc/b"} {
			about := once.Subject{Consumer: consumer}
			o.Observe(t.Context(), once.TxUnused{Subject: about})
			o.Observe(t.Context(), once.ChainProblem{Subject: about, Problem: once.SettledBefore})
		}
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 4 {
		t.Errorf("%d warnings:\n%s", n, out.String())
	}
	if n := strings.Count(out.String(), "level=DEBUG"); n != 8 {
		t.Errorf("%d at debug:\n%s", n, out.String())
	}
}

func TestSlog_DescribesEveryEvent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := once.SlogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, e := range []once.Event{
		once.AttemptEnded{Outcome: once.Refused, Err: errors.New("e")},
		once.AttemptHeld{},
		once.KeyReused{},
		once.TxUnused{},
		once.HookFailed{},
		once.OutputFailed{Err: errors.New("e")},
		once.OutputFailed{Err: errors.New("e"), Dead: true},
		once.MarkFailed{Err: errors.New("e")},
		once.Relayed{},
		once.ChainProblem{},
		once.Started{},
		once.StoreWeak{},
		once.PoolSmall{},
		once.Purged{Deleted: 1},
		once.Purged{Err: errors.New("e")},
		once.Closed{},
		once.Closed{Left: 1},
	} {
		o.Observe(t.Context(), e)
	}
	if strings.Contains(out.String(), "once.") && strings.Contains(out.String(), `msg=once.`) {
		t.Errorf("an event is not described:\n%s", out.String())
	}
}

func TestOutcome_String(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for o := once.Processed; o <= once.Refused; o++ {
		if s := o.String(); s == "" || s != strings.ToLower(s) || seen[s] {
			t.Errorf("%d is %q", o, s)
		}
		seen[o.String()] = true
	}
	if once.Outcome(0).String() != "Outcome(0)" {
		t.Error("zero has a name")
	}
}

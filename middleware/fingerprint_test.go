package once_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestFingerprint_Policies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy once.FingerprintPolicy
		is     error
		last   once.Outcome
		events int
	}{
		"default": {0, store.ErrKeyReused, once.Reused, 0},
		"reject":  {once.FingerprintReject, store.ErrKeyReused, once.Reused, 0},
		"warn":    {once.FingerprintWarn, nil, once.Duplicate, 1},
		"off":     {once.FingerprintOff, nil, once.Duplicate, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &recorder{}
			config := quick()
			config.Observer = seen
			config.FingerprintPolicy = c.policy
			h := handle(newGuard(t, newFake(), config), func(*message.Message) error { return nil })
			if err := h(deliver(t, "m1", "a")); err != nil {
				t.Fatal(err)
			}
			if err := h(deliver(t, "m1", "b")); !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			seen.wantOutcomes(t, once.Processed, c.last)
			reused := eventsOf[once.KeyReused](seen)
			if len(reused) != c.events {
				t.Fatalf("%d events, want %d", len(reused), c.events)
			}
			if c.events == 1 && (reused[0].Key != "m1" || reused[0].ClaimedAt.IsZero()) {
				t.Errorf("the event is %+v", reused[0])
			}
		})
	}
}

func TestC25_EqualIdsOfOtherPayloadsArePermanentAndTellWhen(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	h := handle(newGuard(t, s, quick()), effectOf)
	if err := h(deliver(t, "m1", "a")); err != nil {
		t.Fatal(err)
	}
	err := h(deliver(t, "m1", "b"))
	var reused *store.KeyReusedError
	if !errors.As(err, &reused) || reused.ClaimedAt.IsZero() || !once.Poison(err) {
		t.Errorf("got %v", err)
	}
	if err := h(deliver(t, "m1", "a")); err != nil { // cannot be told from a duplicate
		t.Error(err)
	}
	s.wantEffects(t, 1)
}

func TestC25_TheProducerInTheKeyIsTheCure(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	c := quick()
	c.Key = once.Composite(once.Metadata("producer"), once.UUID)
	h := handle(newGuard(t, s, c), effectOf)
	for _, producer := range []string{"a", "b"} {
		msg := deliver(t, "m1", "x")
		msg.Metadata["producer"] = producer
		if err := h(msg); err != nil {
			t.Error(err)
		}
	}
	s.wantEffects(t, 2)
}

func TestFingerprintFields(t *testing.T) {
	t.Parallel()
	f := once.FingerprintFields("sum", "to.account", "lines")
	of := func(payload string) []byte {
		sum, err := f(msgWith("", payload))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := of(`{"sum":10,"to":{"account":"a"},"lines":[{"x":1,"y":2}],"sent_at":1}`)
	for payload, same := range map[string]bool{
		`{"sent_at":2, "lines":[ {"y":2,"x":1} ], "to":{"account":"a","name":"n"}, "sum":10}`: true,
		`{"sum":11,"to":{"account":"a"},"lines":[{"x":1,"y":2}]}`:                             false,
		`{"sum":10.0,"to":{"account":"a"},"lines":[{"x":1,"y":2}]}`:                           false,
		`{"sum":10,"to":{"account":"b"},"lines":[{"x":1,"y":2}]}`:                             false,
		`{"sum":10,"to":{},"lines":[{"x":1,"y":2}]}`:                                          false,
		`{"sum":10,"to":{"account":null},"lines":[{"x":1,"y":2}]}`:                            false,
		`{"sum":10,"to":{"account":"a"},"lines":[{"x":1},{"y":2}]}`:                           false,
	} {
		if bytes.Equal(of(payload), first) != same {
			t.Errorf("%s: equal is %v, want %v", payload, !same, same)
		}
	}
	if bytes.Equal(of(`{"to":{}}`), of(`{"to":{"account":null}}`)) {
		t.Error("absent and null are the same")
	}
	if _, err := f(msgWith("", "no JSON")); err == nil {
		t.Error("no error")
	}
}

func TestFingerprint_ThatCannotBeMadeIsPermanent(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]once.FingerprintFunc{
		"failed":   func(*message.Message) ([]byte, error) { return nil, errBusiness },
		"panicked": func(*message.Message) ([]byte, error) { panic("boom") },
		"too long": func(*message.Message) ([]byte, error) { return make([]byte, 65), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick()
			c.Fingerprint = f
			h := handle(newGuard(t, untouched(t), c), func(*message.Message) error { return nil })
			if err := h(deliver(t, "m1", "x")); !errors.Is(err, once.ErrNoFingerprint) || !once.IsPermanent(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFingerprint_NilIsNotCompared(t *testing.T) {
	t.Parallel()
	c := quick()
	c.Fingerprint = func(*message.Message) ([]byte, error) { return []byte{}, nil }
	h := handle(newGuard(t, newFake(), c), func(*message.Message) error { return nil })
	for _, payload := range []string{"a", "b"} {
		if err := h(deliver(t, "m1", payload)); err != nil {
			t.Error(err)
		}
	}
}

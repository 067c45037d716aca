package once_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func TestNew_RefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	with := func(change func(*once.Config)) once.Config {
		c := once.Config{Service: "svc"}
		change(&c)
		return c
	}
	handlers := func(h map[string]once.HandlerConfig) once.Config {
		return once.Config{Service: "svc", Handlers: h}
	}
	for name, c := range map[string]struct {
		config once.Config
		says   []string
	}{
		"no service":        {once.Config{}, []string{"Service", "empty"}},
		"blank service":     {once.Config{Service: " "}, []string{"Service", "empty"}},
		"slash":             {once.Config{Service: "a/b"}, []string{"Service", `"a/b"`, "slash"}},
		"control":           {once.Config{Service: "a\n"}, []string{"Service", "control"}},
		"negative wait":     {with(func(c *once.Config) { c.Wait = -time.Second }), []string{"Wait -1s", "negative"}},
		"forgotten unit":    {with(func(c *once.Config) { c.Drain = 5 }), []string{"Drain 5ns", "unit"}},
		"negative limit":    {with(func(c *once.Config) { c.Limit = -1 }), []string{"Limit -1"}},
		"negative batch":    {with(func(c *once.Config) { c.PurgeBatch = -1 }), []string{"PurgeBatch -1"}},
		"negative keys":     {with(func(c *once.Config) { c.FailingKeys = -1 }), []string{"FailingKeys -1"}},
		"policy":            {with(func(c *once.Config) { c.FingerprintPolicy = 9 }), []string{"FingerprintPolicy 9"}},
		"backoff":           {with(func(c *once.Config) { c.BackoffMin, c.BackoffMax = 2*time.Second, time.Second }), []string{"BackoffMin 2s", "BackoffMax 1s"}},
		"hold":              {with(func(c *once.Config) { c.Hold, c.Redelivery = 20*time.Second, 30*time.Second }), []string{"Hold 20s", "Redelivery 30s", "15s"}},
		"wait":              {with(func(c *once.Config) { c.Redelivery = 4 * time.Second }), []string{"Wait 5s", "Redelivery 4s"}},
		"retention":         {with(func(c *once.Config) { c.Retention, c.Redelivery = time.Minute, time.Hour }), []string{"Retention 1m", "Redelivery 1h"}},
		"all at once":       {once.Config{Limit: -1, Wait: -1}, []string{"Service", "Limit", "Wait"}},
		"consumer":          {handlers(map[string]once.HandlerConfig{"a": {Consumer: "b"}}), []string{`Handlers["a"]`, `"b"`, "slash"}},
		"consumer half":     {handlers(map[string]once.HandlerConfig{"a": {Consumer: "b/ "}}), []string{`Handlers["a"]`, "empty"}},
		"consumer long":     {handlers(map[string]once.HandlerConfig{strings.Repeat("a", 252): {}}), []string{"256 bytes", "255"}},
		"consumer of two":   {handlers(map[string]once.HandlerConfig{"a": {Consumer: "svc/b"}, "b": {}}), []string{`"svc/b"`, `"a"`, `"b"`}},
		"handler wait":      {handlers(map[string]once.HandlerConfig{"a": {Wait: -1}}), []string{`Handlers["a"].Wait`}},
		"handler redeliver": {handlers(map[string]once.HandlerConfig{"a": {Redelivery: 4 * time.Second}}), []string{`Handlers["a"].Wait 5s`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := once.New(newFake(), c.config)
			if !errors.Is(err, once.ErrConfig) {
				t.Fatalf("got %v", err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %q: %v", word, err)
				}
			}
		})
	}
}

func TestNew_RefusesNoStore(t *testing.T) {
	t.Parallel()
	var none *fakeStore
	for _, s := range []store.Store{nil, none} {
		if _, err := once.New(s, once.Config{Service: "svc"}); !errors.Is(err, once.ErrConfig) {
			t.Errorf("got %v", err)
		}
	}
}

func TestNew_RedeliveryLowersTheDefaultHold(t *testing.T) {
	t.Parallel()
	newGuard(t, newFake(), once.Config{Service: "svc", Redelivery: 30 * time.Second, PurgeEvery: -1})
	newGuard(t, newFake(), once.Config{Service: "svc", BackoffMax: time.Millisecond, PurgeEvery: -1})
	newGuard(t, newFake(), once.Config{Service: "svc", BackoffMin: time.Minute, PurgeEvery: -1})
}

// pickyStore refuses fractions of a second, as MySQL does.
type pickyStore struct{ *fakeStore }

func (pickyStore) Validate(c store.Claim) error {
	if c.Wait%time.Second != 0 {
		return store.ErrInvalid
	}
	return nil
}

func TestNew_AsksTheStore(t *testing.T) {
	t.Parallel()
	s := pickyStore{newFake()}
	for _, c := range []once.Config{
		{Service: "svc", Wait: 1500 * time.Millisecond},
		{Service: "svc", Handlers: map[string]once.HandlerConfig{"h": {Wait: 1500 * time.Millisecond}}},
	} {
		if _, err := once.New(s, c); !errors.Is(err, once.ErrConfig) || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
	newGuard(t, s, once.Config{Service: "svc", PurgeEvery: -1})
}

func TestHandlerConfig_IsLookedUpByName(t *testing.T) {
	t.Parallel()
	s := newFake()
	c := quick()
	c.Handlers = map[string]once.HandlerConfig{"renamed": {
		Consumer:          "old/h",
		Key:               once.Metadata("id"),
		FingerprintPolicy: once.FingerprintOff,
		When:              func(msg *message.Message) bool { return msg.UUID != "no" },
	}}
	h := handle(newGuard(t, s, c), func(*message.Message) error { return nil })
	for _, uuid := range []string{"no", "a", "b"} {
		msg := message.NewMessageWithContext(handlerContext(t, "renamed", "t"), uuid, []byte(uuid))
		msg.Metadata["id"] = "k"
		if err := h(msg); err != nil {
			t.Error(err)
		}
	}
	if _, commits, _ := s.counts(); commits != 1 || !s.has("old/h", "k") {
		t.Errorf("%d commits: %v", commits, s.claims)
	}
}

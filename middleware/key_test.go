package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

func msgWith(uuid, payload string, metadata ...string) *message.Message {
	msg := message.NewMessage(uuid, []byte(payload))
	for i := 0; i < len(metadata); i += 2 {
		msg.Metadata[metadata[i]] = metadata[i+1]
	}
	return msg
}

func TestKeyFuncs(t *testing.T) {
	t.Parallel()
	const structured = `{"specversion":"1.0","source":"/orders","id":"7","data":{"id":"8"}}`
	for name, c := range map[string]struct {
		key  once.KeyFunc
		msg  *message.Message
		want string // "": no key
	}{
		"uuid":                        {once.UUID, msgWith("u", ""), "u"},
		"metadata":                    {once.Metadata("id"), msgWith("u", "", "id", "7"), "7"},
		"metadata missing":            {once.Metadata("id"), msgWith("u", "", "ID", "7"), ""},
		"payload hash":                {once.PayloadHash, msgWith("", "a"), "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
		"payload hash of nothing":     {once.PayloadHash, msgWith("u", ""), ""},
		"json string":                 {once.JSONField("order.id"), msgWith("u", `{"order":{"id":"7"}}`), "7"},
		"json number as spelled":      {once.JSONField("id"), msgWith("u", `{"id":1.0}`), "1.0"},
		"json large number":           {once.JSONField("id"), msgWith("u", `{"id":12345678901234567890}`), "12345678901234567890"},
		"json pointer":                {once.JSONField("/a.b/c~1d/e~0f"), msgWith("u", `{"a.b":{"c/d":{"e~f":"7"}}}`), "7"},
		"json array":                  {once.JSONField("ids.1"), msgWith("u", `{"ids":["a","b"]}`), "b"},
		"json array, odd index":       {once.JSONField("ids.01"), msgWith("u", `{"ids":["a","b"]}`), ""},
		"json array, out of range":    {once.JSONField("ids.2"), msgWith("u", `{"ids":["a","b"]}`), ""},
		"json exact name":             {once.JSONField("id"), msgWith("u", `{"ID":"7"}`), ""},
		"json last of two":            {once.JSONField("id"), msgWith("u", `{"id":"1","id":"2"}`), "2"},
		"json null":                   {once.JSONField("id"), msgWith("u", `{"id":null}`), ""},
		"json bool":                   {once.JSONField("id"), msgWith("u", `{"id":true}`), ""},
		"json object":                 {once.JSONField("id"), msgWith("u", `{"id":{}}`), ""},
		"json scalar on the way":      {once.JSONField("id.x"), msgWith("u", `{"id":"7"}`), ""},
		"json broken":                 {once.JSONField("id"), msgWith("u", `{"id":"7"`), ""},
		"json with a tail":            {once.JSONField("id"), msgWith("u", `{"id":"7"}{}`), ""},
		"json empty":                  {once.JSONField("id"), msgWith("u", ``), ""},
		"json invalid UTF-8":          {once.JSONField("id"), msgWith("u", "{\"id\":\"\xff\"}"), ""},
		"json lone surrogate":         {once.JSONField("id"), msgWith("u", `{"id":"a\ud800"}`), ""},
		"json spaces":                 {once.JSONField("id"), msgWith("u", " {\"id\" : \"7\"}\n"), "7"},
		"composite":                   {once.Composite(once.Metadata("p"), once.UUID), msgWith("u", "", "p", "ab"), "2:ab1:u"},
		"composite, a part empty":     {once.Composite(once.Metadata("p"), once.UUID), msgWith("u", "", "p", ""), ""},
		"composite, a part blank":     {once.Composite(once.Metadata("p"), once.UUID), msgWith("u", "", "p", " "), ""},
		"composite, a part missing":   {once.Composite(once.Metadata("p"), once.UUID), msgWith("u", ""), ""},
		"cloudevent, kafka":           {once.CloudEventsID, msgWith("u", "", "ce_id", "7", "ce_source", "/orders"), "7:/orders1:7"},
		"cloudevent, http":            {once.CloudEventsID, msgWith("u", "", "ce-id", "7", "ce-source", "/orders"), "7:/orders1:7"},
		"cloudevent, http in Go":      {once.CloudEventsID, msgWith("u", "", "Ce-Id", "7", "Ce-Source", "/orders"), "7:/orders1:7"},
		"cloudevent, amqp":            {once.CloudEventsID, msgWith("u", "", "cloudEvents:id", "7", "cloudEvents:source", "/orders"), "7:/orders1:7"},
		"cloudevent, amqp underscore": {once.CloudEventsID, msgWith("u", "", "cloudEvents_id", "7", "cloudEvents_source", "/orders"), "7:/orders1:7"},
		"cloudevent, structured":      {once.CloudEventsID, msgWith("u", structured), "7:/orders1:7"},
		"cloudevent, no source":       {once.CloudEventsID, msgWith("u", "", "ce_id", "7"), ""},
		"cloudevent, no id":           {once.CloudEventsID, msgWith("u", `{"specversion":"1.0","source":"/orders"}`), ""},
		"cloudevent, id a number":     {once.CloudEventsID, msgWith("u", `{"specversion":"1.0","source":"/orders","id":7}`), ""},
		"cloudevent, batch":           {once.CloudEventsID, msgWith("u", `[`+structured+`]`), ""},
		"cloudevent, other JSON":      {once.CloudEventsID, msgWith("u", `{"source":"/orders","id":"7"}`), ""},
		"cloudevent, no JSON":         {once.CloudEventsID, msgWith("u", `hello`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.key(c.msg)
			if got != c.want && err == nil || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestKey_CompositeIsNotAmbiguous(t *testing.T) {
	t.Parallel()
	key := once.Composite(once.Metadata("a"), once.Metadata("b"), once.Metadata("c"))
	of := func(p []string) string {
		k, err := key(msgWith("", "", "a", p[0], "b", p[1], "c", p[2]))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	parts := rapid.SliceOfN(rapid.StringMatching(`[0-9:a]{1,5}`), 3, 3)
	rapid.Check(t, func(t *rapid.T) {
		p, q := parts.Draw(t, "p"), parts.Draw(t, "q")
		if (of(p) == of(q)) != (strings.Join(p, "|") == strings.Join(q, "|")) {
			t.Fatalf("%q and %q make one key", p, q)
		}
	})
}

func TestKey_ConstructorsPanicOnWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"metadata":    func() { once.Metadata("") },
		"json":        func() { once.JSONField("") },
		"json dots":   func() { once.JSONField("a..b") },
		"json slash":  func() { once.JSONField("/") },
		"composite":   func() { once.Composite(once.UUID, nil) },
		"fingerprint": func() { once.FingerprintFields("a", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// untouched is a store that must not be asked.
func untouched(t *testing.T) *fakeStore {
	t.Helper()
	s := newFake()
	s.before = func(context.Context, store.Claim) error {
		t.Error("the store was asked")
		return nil
	}
	return s
}

func TestB17_EmptyAndBlankKeysAreErrNoKeyAndNeverDuplicates(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, key := range map[string]once.KeyFunc{
		"empty":     func(*message.Message) (string, error) { return "", nil },
		"spaces":    func(*message.Message) (string, error) { return " \t\n\u00a0\u2003", nil },
		"failed":    func(*message.Message) (string, error) { return "k", boom },
		"panicked":  func(*message.Message) (string, error) { panic(boom) },
		"nil deref": func(*message.Message) (string, error) { var m *message.Message; return m.UUID, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick()
			c.Key = key
			h := handle(newGuard(t, untouched(t), c), func(*message.Message) error { t.Error("the handler ran"); return nil })
			for range 3 {
				err := h(deliver(t, "", "x"))
				if !errors.Is(err, once.ErrNoKey) || !once.IsPermanent(err) || !once.Poison(err) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestB18_PhantomMessageIsRejectedBeforeAnyStatement(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]once.KeyFunc{"uuid": once.UUID, "hash": once.PayloadHash, "json": once.JSONField("id"), "cloudevents": once.CloudEventsID} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick()
			c.Key = key
			h := handle(newGuard(t, untouched(t), c), func(*message.Message) error { t.Error("the handler ran"); return nil })
			phantom := &message.Message{}
			phantom.SetContext(handlerContext(t, "h", "t"))
			if err := h(phantom); !errors.Is(err, once.ErrNoKey) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestKey_AnyBytesReachTheStore(t *testing.T) {
	t.Parallel()
	s := newFake()
	h := handle(newGuard(t, s, quick()), func(*message.Message) error { return nil })
	for _, key := range []string{"é", "e\u0301", "a", "A", "a ", " a", "a\x00", "\xff\xfe", strings.Repeat("k", 8192)} {
		if err := h(deliver(t, key, "x")); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if !s.has("svc/h", key) {
			t.Errorf("%q: another key was claimed", key)
		}
	}
}

func TestKey_LongOnesAreShortInErrors(t *testing.T) {
	t.Parallel()
	h := handle(newGuard(t, newFake(), quick()), func(*message.Message) error { return errBusiness })
	err := h(deliver(t, strings.Repeat("ä", 4096), "x"))
	if text := err.Error(); len(text) > 300 || !strings.Contains(text, "(8192 bytes)") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func FuzzJSONField(f *testing.F) {
	for _, seed := range []string{`{"id":"7"}`, `{"id":1e3}`, `[1]`, ``, `{"id":"\ud800"}`, "{\"id\":\"\xff\"}", `{"id":{"id":"x"}}`} {
		f.Add([]byte(seed))
	}
	key := once.JSONField("id")
	f.Fuzz(func(t *testing.T, payload []byte) {
		a, errA := key(message.NewMessage("", payload))
		b, errB := key(message.NewMessage("", append([]byte(" "), payload...)))
		if a != b || (errA == nil) != (errB == nil) {
			t.Fatalf("a leading space changes the key: %q %v, %q %v", a, errA, b, errB)
		}
	})
}

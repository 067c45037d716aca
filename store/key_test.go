package store_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store"
)

// The encoding is part of the schema: a claim made by any release must be found
// by every later one. These bytes may never change.
func TestEncodeKeyIsForEver(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b90":   "\x01\x0b\x8e\x2f\x6c\x7d\x7e\x4a\x51\x9d\x43\x3c\x1f\x8a\x5e\x2b\x90",
		"0B8E2F6C-7D7E-4A51-9D43-3C1F8A5E2B90":   "\x020B8E2F6C-7D7E-4A51-9D43-3C1F8A5E2B90",
		"0b8e2f6c7d7e4a519d433c1f8a5e2b90":       "\x020b8e2f6c7d7e4a519d433c1f8a5e2b90",
		"{0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b9}}": "\x02{0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b9}}",
		"order 17 ":                              "\x02order 17 ",
		"é":                                      "\x02é",
		strings.Repeat("x", 200):                 "\x02" + strings.Repeat("x", 200),
		"a\x00b":                                 "\x03\x59\xb2\x71\xae\x1b\xbc\xb1\xd3\x1d\x41\x92\x98\x17\xf4\xb1\x6f\xb4\x39\xeb\x4f\x31\x52\x0b\x5a\xd1\xd5\xce\x98\x92\x0a\x71\x38",
	} {
		if got := store.EncodeKey(key); string(got) != want {
			t.Errorf("EncodeKey(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestB19_B20_B22_B23_KeysThatDifferStayDifferent(t *testing.T) {
	t.Parallel()
	keys := []string{
		"aB1", "Ab1", "àb1", "ab1", "k", "k ", "k\t", " k", "é", "e\u0301", "a\x00b", "ab", "\xff\xfe", "\xff", "",
		strings.Repeat("x", 255) + "1", strings.Repeat("x", 255) + "2", strings.Repeat("y", 8<<10), strings.Repeat("y", 8<<10) + " ",
		"0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b90", "0B8E2F6C-7D7E-4A51-9D43-3C1F8A5E2B90",
		// Text that looks like another key's encoding.
		"\x02k", "\x01" + strings.Repeat("a", 16), "sha256:00",
	}
	seen := map[string]string{}
	for _, key := range keys {
		encoded := string(store.EncodeKey(key))
		if other, ok := seen[encoded]; ok {
			t.Errorf("%q and %q have one encoding", key, other)
		}
		if len(encoded) > 201 {
			t.Errorf("%q is encoded in %d bytes", key, len(encoded))
		}
		seen[encoded] = key
	}
}

func FuzzEncodeKey(f *testing.F) {
	for _, s := range [][2]string{
		{"k", "k "},
		{"0b8e2f6c-7d7e-4a51-9d43-3c1f8a5e2b90", "0B8E2F6C-7D7E-4A51-9D43-3C1F8A5E2B90"},
		{"a\x00b", "a\x00c"},
		{strings.Repeat("x", 200), strings.Repeat("x", 201)},
		{"\xff", "\ufffd"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := store.EncodeKey(a), store.EncodeKey(b)
		if bytes.Equal(x, y) != (a == b) {
			t.Errorf("%q and %q: equal keys and equal encodings differ", a, b)
		}
		if len(x) > 201 {
			t.Errorf("%q is encoded in %d bytes", a, len(x))
		}
		shown := store.DecodeKey(x)
		if shown != a && !strings.HasPrefix(shown, "sha256:") {
			t.Errorf("DecodeKey shows %q for %q", shown, a)
		}
	})
}

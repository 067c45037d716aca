package store_test

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"github.com/watermill-once/watermill-once/store"
)

func TestMetadataIsKeptExactly(t *testing.T) {
	t.Parallel()
	for _, m := range []map[string]string{
		nil,
		{},
		{"": ""},
		{"a": "1", "b": "2", "": "none"},
		{"\x00\xff": "not \xc3\x28 UTF-8", "new\nline": "\t", "ключ": "значение"},
		{"long": string(make([]byte, 300)), string(make([]byte, 200)): ""},
	} {
		b := store.EncodeMetadata(m)
		got, err := store.DecodeMetadata(b)
		if err != nil || !maps.Equal(got, m) || (got == nil) != (m == nil) {
			t.Errorf("%q came back as %q: %v", m, got, err)
		}
		if !bytes.Equal(b, store.EncodeMetadata(maps.Clone(m))) {
			t.Errorf("%q has two encodings", m)
		}
	}
}

func TestMetadataRefusesGarbage(t *testing.T) {
	t.Parallel()
	for what, b := range map[string][]byte{
		"nothing":          nil,
		"no count":         {1},
		"another version":  {2, 0},
		"json":             []byte(`{"a":"b"}`),
		"something behind": {1, 0, 0},
		"cut off":          {1, 2, 1, 'a', 3, 'b'},
		"a huge count":     {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"no end of number": {1, 0xff},
		"a long number":    {1, 0x82, 0, 0, 0},
		"unsorted":         {1, 3, 1, 'b', 0, 1, 'a', 0},
		"a key twice":      {1, 3, 1, 'a', 0, 1, 'a', 0},
	} {
		if m, err := store.DecodeMetadata(b); !errors.Is(err, store.ErrMetadata) {
			t.Errorf("%s: %q, %v", what, m, err)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte{1, 0})
	f.Add([]byte{1, 1})
	f.Add(store.EncodeMetadata(map[string]string{"a": "b", "\x00": "\xff"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := store.DecodeMetadata(b)
		if err != nil {
			return
		}
		if again := store.EncodeMetadata(m); !bytes.Equal(again, b) {
			t.Errorf("%x decodes to %q, which encodes to %x", b, m, again)
		}
	})
}

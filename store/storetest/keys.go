package storetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// keys are the scenarios of what identifies a message: equality is byte
// equality, on every database.
func keys() []scenario {
	return []scenario{
		{name: "B19 B20 B21 B22 B23 keys are equal only byte for byte", run: byteEqual},
		{name: "B22 a consumer of 255 bytes works with every kind of key", run: longConsumer},
		{name: "B21 the claim leaves no warning", on: onMySQL, run: noWarnings},
		{name: "the view shows keys as text", run: viewShows},
		{name: "lookup finds a claim by its original key, forget lets it run again", run: lookupAndForget},
	}
}

// oddKeys are keys of which no two are equal, though some database, driver or
// charset thinks so of each pair.
func oddKeys() map[string]string {
	random := rand.NewChaCha8([32]byte{1})
	long := make([]byte, 8<<10)
	_, _ = random.Read(long) // never fails
	shared := strings.Repeat("s", 255)
	return map[string]string{
		"case 1": "aB1", "case 2": "Ab1", "case 3": "ab1", "accent": "àb1", "sharp s": "straße", "double s": "strasse",
		"plain": "k", "trailing blank": "k ", "two blanks": "k  ", "trailing tab": "k\t", "leading blank": " k", "newline": "k\n",
		"blank": " ", "composed": "\u00e9", "decomposed": "e\u0301", "emoji": "\U0001F600", "other emoji": "\U0001F601",
		"NUL": "a\x00b", "NUL at the end": "k\x00", "only NUL": "\x00", "invalid 1": "\xff\xfe", "invalid 2": "\xff", "latin1": "\xe9",
		"number": "1", "float": "1.0", "zeros": "01", "hex": "0x31", "quote": "k'", "percent": "k%", "underscore": "k_", "backslash": `k\`,
		"random 1": string(long), "random 2": string(long[1:]), "repeated": strings.Repeat("a", 8<<10),
		"300 a": shared + strings.Repeat("a", 45), "300 b": shared + strings.Repeat("b", 45), "255": shared,
		"200": shared[:200], "201": shared[:201], "199": shared[:199],
		"uuid": "0b4e1d2c-7f3a-4c1e-9d2b-6a5f4e3d2c1b", "upper uuid": "0B4E1D2C-7F3A-4C1E-9D2B-6A5F4E3D2C1B",
		"bare uuid": "0b4e1d2c7f3a4c1e9d2b6a5f4e3d2c1b", "braced uuid": "{0b4e1d2c-7f3a-4c1e-9d2b-6a5f4e3d2c1b}",
		// What another key is encoded to must not be that key.
		"encoded uuid": string(store.EncodeKey("0b4e1d2c-7f3a-4c1e-9d2b-6a5f4e3d2c1b")), "encoded k": string(store.EncodeKey("k")),
		"shown hash": store.DecodeKey(store.EncodeKey("a\x00b")), "null": "NULL", "right to left": "\u202eabc",
	}
}

func byteEqual(t testing.TB, h Harness) {
	p := open(t, h, 4)
	all := oddKeys()
	for what, key := range all {
		c := p.claim(key)
		c.Fingerprint = []byte(what)[:min(len(what), 8)]
		r, err := p.s.Do(t.Context(), c, effect(what))
		if err != nil || r.Duplicate {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	p.holds(len(all), len(all))
	for what, key := range all {
		c := p.claim(key)
		c.Fingerprint = []byte(what)[:min(len(what), 8)]
		r, err := p.s.Do(t.Context(), c, p.never)
		if err != nil || !r.Duplicate {
			t.Errorf("%s, again: %+v, %v", what, r, err)
		}
		if found, ok, err := p.s.Lookup(t.Context(), consumer, key); err != nil || !ok || found.Key != key {
			t.Errorf("%s: lookup: %+v, %v, %v", what, found, ok, err)
		}
	}
	p.holds(len(all), len(all))
}

func longConsumer(t testing.TB, h Harness) {
	p := open(t, h, 2)
	consumers := []string{strings.Repeat("\U0001F600", 63) + "abc", strings.Repeat("\U0001F600", 63) + "abd", strings.Repeat("c", 255)}
	for _, consumer := range consumers {
		for _, key := range []string{strings.Repeat("k", 200), strings.Repeat("\U0001F600", 50), "a\x00b"} {
			c := store.Claim{Consumer: consumer, Key: key, Wait: h.wait()}
			r, err := p.s.Do(t.Context(), c, effect("x"))
			isNew(t, r, err)
			r, err = p.s.Do(t.Context(), c, p.never)
			isDuplicate(t, r, err)
		}
	}
	p.holds(9, 9)
}

func noWarnings(t testing.TB, h Harness) {
	p := open(t, h, 1)
	for what, key := range oddKeys() {
		r, err := p.s.Do(t.Context(), p.claim(key), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			rows, err := tx.QueryxContext(ctx, "SHOW WARNINGS")
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				warning, err := rows.SliceScan()
				t.Errorf("%s: %s, %v", what, warning, err)
			}
			return nil, rows.Err()
		})
		isNew(t, r, err)
	}
}

func viewShows(t testing.TB, h Harness) {
	p := open(t, h, 2)
	all := oddKeys()
	want := map[string]int{} // a text that looks like a hash is shown as that hash is
	for _, key := range all {
		r, err := p.s.Do(t.Context(), p.claim(key), effect("x"))
		isNew(t, r, err)
		want[store.DecodeKey(store.EncodeKey(key))]++
	}
	var shown []struct{ Consumer, Key string }
	query := "SELECT consumer, `key` FROM once_claims_text"
	if !onMySQL(h) {
		query = `SELECT consumer, "key" FROM once_claims_text`
	}
	if err := p.view().SelectContext(t.Context(), &shown, query); err != nil {
		t.Fatal(err)
	}
	if len(shown) != len(all) {
		t.Errorf("%d of %d claims are shown", len(shown), len(all))
	}
	for _, s := range shown {
		if want[s.Key]--; want[s.Key] < 0 || s.Consumer != consumer {
			t.Errorf("%q by %q is shown, and nobody claimed it", s.Key, s.Consumer)
		}
	}
}

func lookupAndForget(t testing.TB, h Harness) {
	p := open(t, h, 2)
	const key = "a\x00 key that is kept as a hash"
	if _, found, err := p.s.Lookup(t.Context(), consumer, key); found || err != nil {
		t.Errorf("lookup before: %v, %v", found, err)
	}
	if forgot, err := p.s.Forget(t.Context(), consumer, key); forgot || err != nil {
		t.Errorf("forget before: %v, %v", forgot, err)
	}
	c := p.claim(key)
	c.Fingerprint = []byte("payload")
	r, err := p.s.Do(t.Context(), c, effect("first"))
	isNew(t, r, err)
	found, ok, err := p.s.Lookup(t.Context(), consumer, key)
	if err != nil || !ok || string(found.Fingerprint) != "payload" || found.Key != key || found.Consumer != consumer || found.ClaimedAt.IsZero() || found.Age < 0 {
		t.Errorf("lookup: %+v, %v, %v", found, ok, err)
	}
	if _, ok, _ := p.s.Lookup(t.Context(), "billing/other", key); ok {
		t.Error("another consumer finds it too")
	}
	if forgot, err := p.s.Forget(t.Context(), consumer, key); !forgot || err != nil {
		t.Errorf("forget: %v, %v", forgot, err)
	}
	r, err = p.s.Do(t.Context(), c, effect("second"))
	isNew(t, r, err)
	p.holds(1, 2)
	for _, empty := range []struct{ consumer, key string }{{"", key}, {consumer, ""}} {
		if _, _, err := p.s.Lookup(t.Context(), empty.consumer, empty.key); err == nil {
			t.Errorf("lookup of %+v is no error", empty)
		}
		if _, err := p.s.Forget(t.Context(), empty.consumer, empty.key); err == nil {
			t.Errorf("forget of %+v is no error", empty)
		}
	}
}

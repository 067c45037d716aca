package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// keptOutputs: what is stored with a claim, and what is not.
func keptOutputs() []scenario {
	return []scenario{
		{name: "outputs are stored with the claim, byte for byte", run: storedExactly},
		{name: "ids rise with time and are never given twice", run: idsRise},
		{name: "B12 outputs are rolled back with the handler's error, a panic, a doom", run: rolledBackOutputs},
		{name: "an output without a topic is refused before anything is sent", run: noTopic},
		{name: "a thousand outputs and one of ten megabytes", run: manyAndLarge},
		{name: "C08 an output that the server can never take is permanent and harms nobody", on: onMySQL, run: outputTooLarge},
		{name: "C08 an output that is too large as literals travels as arguments", on: onMySQL, run: outputGrows},
		{name: "a claim that vanished is not a new one", run: vanished},
	}
}

func storedExactly(t testing.TB, h Harness) {
	p := open(t, h, 4)
	want := []store.Output{
		{UUID: "one", Topic: "t", Payload: []byte{}},
		{UUID: "one", Topic: "t", Payload: []byte("the same UUID twice"), Returned: true},
		{UUID: "", Topic: "no UUID", Metadata: map[string]string{}},
		{UUID: "nil\x00\xff'\"\\", Topic: "t\x00\xff'\"\\", Payload: []byte("\x00\xff'\"\\\x1a\r\n")},
		{UUID: "m", Topic: "t", Metadata: map[string]string{"": "", "a\x00b": "c\x01\x1f\x7f", "\xff\xfe": "\xc3\x28", "k'\"\\": "v'\"\\"}},
	}
	kept := p.produce("m1", want...)
	p.holds(1, 1)
	r, err := p.s.Do(t.Context(), p.asking("m1"), p.never)
	isDuplicate(t, r, err)
	alike(t, r.Unsent, want)
	if !slices.Equal(idsOf(r.Unsent), idsOf(kept)) {
		t.Errorf("the ids were %v and are %v", idsOf(kept), idsOf(r.Unsent))
	}
	for i, id := range idsOf(kept) {
		if id != kept[0].ID+store.OutputID(i) {
			t.Errorf("the ids %v are not consecutive", idsOf(kept))
		}
	}
}

func idsRise(t testing.TB, h Harness) {
	p := open(t, h, 4)
	last := store.OutputID(0)
	for i := range 20 {
		for _, o := range p.produce(fmt.Sprint(i), made(1+i%3)...) {
			if o.ID <= last {
				t.Errorf("id %d behind %d", o.ID, last)
			}
			last = o.ID
		}
	}
}

func rolledBackOutputs(t testing.TB, h Harness) {
	p := open(t, h, 2)
	boom := errors.New("boom")
	_, err := p.s.Do(t.Context(), p.patient("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		return made(2), errors.Join(addEffect(ctx, tx, "m1"), boom)
	})
	fails(t, err, boom, store.ClassHandler)
	func() {
		defer func() { _ = recover() }()
		_, _ = p.s.Do(t.Context(), p.patient("m1"), func(context.Context, *sqlx.Tx) ([]store.Output, error) { panic("boom") })
	}()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.s.Do(ctx, p.patient("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		defer cancel()
		return made(2), addEffect(ctx, tx, "m1")
	})
	fails(t, err, context.Canceled, store.ClassTransient)
	if !h.Direct {
		_, err = p.s.Do(t.Context(), p.patient("m1"), func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			_, _ = tx.ExecContext(ctx, "INSERT INTO no_such_table VALUES (1)")
			return made(2), nil
		})
		if !errors.Is(err, store.ErrDoomed) {
			t.Errorf("a doomed transaction: %v", err)
		}
	}
	p.holds(0, 0)
	p.outputs(0)
}

func noTopic(t testing.TB, h Harness) {
	p := open(t, h, 2)
	wrong := made(3)
	wrong[1].Topic = ""
	_, err := p.s.Do(t.Context(), p.patient("m1"), produces("m1", wrong...))
	fails(t, err, store.ErrInvalid, store.ClassPermanent)
	if err != nil && !strings.Contains(err.Error(), "output 2 of 3") {
		t.Errorf("%q does not say which output", err)
	}
	p.holds(0, 0)
	p.outputs(0)
	PoolIdle(t, p.s.DB().DB)
}

func manyAndLarge(t testing.TB, h Harness) {
	p := open(t, h, 2)
	many := made(1000)
	p.produce("many", many...)
	large := made(3)
	large[1].Payload = bytes.Repeat([]byte("0123456789'\\\x00\xff"), 10<<20/14)
	p.produce("large", large...)
	for key, want := range map[string][]store.Output{"many": many, "large": large} {
		r, err := p.s.Do(t.Context(), p.asking(key), p.never)
		isDuplicate(t, r, err)
		alike(t, r.Unsent, want)
	}
	p.outputs(1003)
}

// vanished: the claim's INSERT meets another claim, of which then nothing is
// found. A trigger plays the claim.
func vanished(t testing.TB, h Harness) {
	p := open(t, h, 2)
	switch h.Dialect {
	case "postgres":
		p.exec("CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
		p.exec("CREATE TRIGGER vanish BEFORE INSERT ON once_claims FOR EACH ROW EXECUTE FUNCTION vanish()")
	case "mysql":
		p.exec("CREATE TRIGGER vanish BEFORE INSERT ON once_claims FOR EACH ROW SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062")
	default:
		p.exec("CREATE TRIGGER vanish BEFORE INSERT ON once_claims BEGIN SELECT RAISE(IGNORE); END")
	}
	c := p.asking("m1")
	c.Wait = time.Second
	if h.MinWait > c.Wait {
		c.Wait = h.MinWait
	}
	r, err := p.s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	if r.Duplicate {
		t.Error("a claim that nobody can find makes a duplicate")
	}
	p.exec(map[string]string{"postgres": "DROP TRIGGER vanish ON once_claims", "mysql": "DROP TRIGGER vanish", "sqlite": "DROP TRIGGER vanish"}[h.Dialect])
	r, err = p.do(p.patient("m1"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

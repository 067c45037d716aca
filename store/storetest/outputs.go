package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// outputScenarios: what becomes of the messages that a handler produces. Each
// function below has its own file.
func outputScenarios() []scenario {
	return slices.Concat(keptOutputs(), wireOutputs(), leftOutputs(), leasedOutputs(), failedOutputs())
}

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

// made are outputs that tell each other apart.
func made(n int) []store.Output {
	all := make([]store.Output, n)
	for i := range all {
		all[i] = store.Output{
			UUID: fmt.Sprintf("uuid %d", i), Topic: fmt.Sprintf("topic %d", i%3),
			Metadata: map[string]string{"n": fmt.Sprint(i)}, Payload: fmt.Appendf(nil, "payload %d", i), Returned: i%2 == 0,
		}
	}
	return all
}

// produces is a handler that writes one effect and returns outputs.
func produces(name string, outputs ...store.Output) store.Func {
	return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		return outputs, addEffect(ctx, tx, name)
	}
}

// asking is a patient claim that asks for the outputs that are left.
func (p *place) asking(key string) store.Claim {
	c := p.patient(key)
	c.Outputs = true
	return c
}

// produce runs a first attempt with outputs and returns them with their ids.
func (p *place) produce(key string, outputs ...store.Output) []store.Output {
	p.Helper()
	c := p.asking(key)
	c.Bounds.Commit = 2 * time.Minute // many megabytes, on a machine that does other things too
	r, err := p.s.Do(p.Context(), c, produces(key, outputs...))
	isNew(p, r, err)
	alike(p, r.Unsent, outputs)
	return r.Unsent
}

func idsOf(outputs []store.Output) []store.OutputID {
	ids := make([]store.OutputID, len(outputs))
	for i, o := range outputs {
		ids[i] = o.ID
	}
	return ids
}

// alike fails unless got is want with ids, in order.
func alike(t testing.TB, got, want []store.Output) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("there are %d outputs, want %d", len(got), len(want))
		return
	}
	for i, o := range got {
		w := want[i]
		if o.UUID != w.UUID || o.Topic != w.Topic || o.Returned != w.Returned || !bytes.Equal(o.Payload, w.Payload) ||
			!maps.Equal(o.Metadata, w.Metadata) || (o.Metadata == nil) != (w.Metadata == nil) {
			t.Errorf("output %d is %.200q, want %.200q", i, fmt.Sprintf("%+v", o), fmt.Sprintf("%+v", w))
		}
		if o.ID <= 0 || o.Consumer != consumer {
			t.Errorf("output %d has id %d and consumer %q", i, o.ID, o.Consumer)
		}
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

// outputs fails unless so many are stored.
func (p *place) outputs(want int) {
	p.Helper()
	if n := p.number("SELECT COUNT(*) FROM once_outputs"); n != want {
		p.Errorf("%d outputs are stored, want %d", n, want)
	}
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

// limit is the largest packet of the server.
func (p *place) limit() (limit int64) {
	p.Helper()
	if err := p.view().Get(&limit, "SELECT @@max_allowed_packet"); err != nil {
		p.Fatal(err)
	}
	return limit
}

func outputTooLarge(t testing.TB, h Harness) {
	p := open(t, h, 1)
	var before, after int64
	if err := p.s.DB().Get(&before, h.ConnectionID); err != nil {
		t.Fatal(err)
	}
	wrong := made(2)
	wrong[1].Payload = make([]byte, p.limit()+1)
	_, err := p.s.Do(t.Context(), p.patient("m1"), produces("m1", wrong...))
	fails(t, err, store.ErrTooLarge, store.ClassPermanent)
	if err != nil && (!strings.Contains(err.Error(), "max_allowed_packet") || !strings.Contains(err.Error(), "output 2 of 2")) {
		t.Errorf("%q does not name the limit and the output", err)
	}
	p.holds(0, 0)
	p.produce("m2", made(1)...)
	if err := p.s.DB().Get(&after, h.ConnectionID); err != nil || after != before {
		t.Errorf("the connection was lost (%d, %d): %v", before, after, err)
	}
	PoolIdle(t, p.s.DB().DB)
}

// outputGrows: from half the limit on up to it, an output is larger than the
// server takes once it is written out; and several together are.
func outputGrows(t testing.TB, h Harness) {
	p := open(t, h, 1)
	limit := int(p.limit())
	for key, sizes := range map[string][]int{
		"alone": {limit - 8<<10},
		"among": {10, limit/2 + 1, 20, limit / 4, limit / 4, 30},
	} {
		all := made(len(sizes))
		for i, size := range sizes {
			all[i].Payload = bytes.Repeat([]byte{'\''}, size) // the driver would escape each
		}
		p.produce(key, all...)
		r, err := p.s.Do(t.Context(), p.asking(key), p.never)
		isDuplicate(t, r, err)
		alike(t, r.Unsent, all)
	}
	PoolIdle(t, p.s.DB().DB)
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

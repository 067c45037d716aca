package storetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// outputScenarios: what becomes of the messages that a handler produces. Each
// function has its own file.
func outputScenarios() []scenario {
	return slices.Concat(keptOutputs(), wireOutputs(), lostOutputs(), leftOutputs(), leasedOutputs(), relayedOutputs(), failedOutputs())
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

// outputs fails unless so many are stored.
func (p *place) outputs(want int) {
	p.Helper()
	if n := p.number("SELECT COUNT(*) FROM once_outputs"); n != want {
		p.Errorf("%d outputs are stored, want %d", n, want)
	}
}

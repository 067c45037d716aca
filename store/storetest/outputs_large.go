package storetest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store"
)

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

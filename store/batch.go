package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// Batch is the outputs of one claim, on their way into its transaction.
type Batch struct {
	Row *Row
	// Now is an SQL expression for the time at which the handler returned.
	Now string
	// Outputs have their ids, which are consecutive; the place in the slice is
	// the ordinal.
	Outputs []Output
	// Metadata is that of each output, encoded.
	Metadata [][]byte
}

// NotKeptError is what [Session.Commit] fails with when outputs could not be stored
// and COMMIT was certainly not carried out.
type NotKeptError = guarded.NotKeptError

// Size is how many bytes of the output i are stored.
func (b *Batch) Size(i int) int64 {
	o := &b.Outputs[i]
	return int64(len(o.UUID)) + int64(len(o.Topic)) + int64(len(b.Metadata[i])) + int64(len(o.Payload))
}

// Fit returns the end of the longest run of outputs from the place from on that
// has at most rows outputs and bytes bytes, by the measure of weigh. It has at
// least one output.
func (b *Batch) Fit(from, rows int, bytes int64, weigh func(i int) int64) (to int) {
	sum := int64(0)
	for to = from; to < len(b.Outputs) && to-from < rows; to++ {
		if sum += weigh(to); sum > bytes && to > from {
			return to
		}
	}
	return to
}

// batch makes ready what a handler returned, and refuses what can never be
// stored before anything is sent.
func (s *SQL) batch(row *Row, outputs []Output) (*Batch, error) {
	limit, name := s.dialect.OutputLimit(row.Server)
	b := &Batch{Row: row, Now: s.now(), Outputs: slices.Clone(outputs), Metadata: make([][]byte, len(outputs))}
	first := s.ids.take(len(outputs), time.Now())
	for i := range b.Outputs {
		o := &b.Outputs[i]
		if o.Topic == "" {
			return nil, fmt.Errorf("%w: output %d of %d (UUID %.64q) has no topic", ErrInvalid, i+1, len(outputs), o.UUID)
		}
		o.ID, o.Consumer, o.Attempts = first+OutputID(i), row.Consumer, 0
		b.Metadata[i] = EncodeMetadata(o.Metadata)
		if size := b.Size(i); limit > 0 && size > limit {
			return nil, fmt.Errorf("%w: output %d of %d (UUID %.64q) has %d bytes, the limit is %d (%s)",
				ErrTooLarge, i+1, len(outputs), o.UUID, size, limit, name)
		}
	}
	return b, nil
}

const (
	// idBits are the low bits of an id, random at first.
	idBits = 22
	// idEpoch is 2026-01-01, from which ids count milliseconds: 41 bits of them
	// last for 69 years.
	idEpoch = 1767225600000
)

// outputIDs makes ids in the client, so that no INSERT has to return any: they
// rise with time, rise strictly within one store, and meet those of another
// process about as rarely as two of four million do within one millisecond (the
// INSERT then fails, and the attempt is made again).
type outputIDs struct{ last atomic.Int64 }

// take returns the first of n consecutive ids.
func (ids *outputIDs) take(n int, now time.Time) OutputID {
	// Masked: a clock that was never set must not make an id negative.
	fresh := (now.UnixMilli()-idEpoch)&(1<<(63-idBits)-1)<<idBits | rand.Int64N(1<<idBits)
	for {
		last := ids.last.Load()
		first := max(fresh, last+1)
		if ids.last.CompareAndSwap(last, first+int64(n)-1) {
			return OutputID(first)
		}
	}
}

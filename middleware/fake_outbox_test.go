package once_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// fakeOutbox keeps outputs in memory, by the clock of the process.
type fakeOutbox struct {
	// marking and leasing are asked first.
	marking func(ids []store.OutputID) error
	leasing func() error

	outboxMu sync.Mutex
	rows     []*fakeOutput
	lastID   store.OutputID
}

type fakeOutput struct {
	store.Output
	key    fakeKey
	at     time.Time
	leased time.Time
	diedAt time.Time
	reason string
}

func (o *fakeOutbox) onMark(f func(ids []store.OutputID) error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	o.marking = f
}

func (o *fakeOutbox) onLease(f func() error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	o.leasing = f
}

// keep stores what a handler produced and returns it with ids.
func (o *fakeOutbox) keep(k fakeKey, outputs []store.Output) []store.Output {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	kept := make([]store.Output, len(outputs))
	for i, out := range outputs {
		o.lastID++
		out.ID, out.Consumer = o.lastID, k.consumer
		o.rows = append(o.rows, &fakeOutput{Output: out, key: k, at: time.Now()})
		kept[i] = out
	}
	return kept
}

// left are the unsent outputs of a claim.
func (o *fakeOutbox) left(k fakeKey) []store.Output {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	var left []store.Output
	for _, r := range o.rows {
		if r.key == k && r.diedAt.IsZero() {
			left = append(left, r.Output)
		}
	}
	return left
}

func (o *fakeOutbox) unsent() int {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	return len(o.rows)
}

func (o *fakeOutbox) MarkSent(_ context.Context, ids ...store.OutputID) error {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	if o.marking != nil {
		if err := o.marking(ids); err != nil {
			return err
		}
	}
	o.rows = slices.DeleteFunc(o.rows, func(r *fakeOutput) bool { return slices.Contains(ids, r.ID) })
	return nil
}

func (o *fakeOutbox) LeaseUnsent(_ context.Context, l store.Lease) ([]store.Output, error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	if o.leasing != nil {
		if err := o.leasing(); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	var outputs []store.Output
	for _, r := range o.rows {
		service, _, _ := strings.Cut(r.Consumer, "/")
		due := slices.Contains(l.Services, service) && r.diedAt.IsZero() && !now.Before(r.leased) && now.Sub(r.at) >= l.Older
		if due && len(outputs) < l.Limit {
			r.leased = now.Add(l.For)
			outputs = append(outputs, r.Output)
		}
	}
	return outputs, nil
}

func (o *fakeOutbox) Postpone(_ context.Context, failures ...store.Failure) error {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	for _, f := range failures {
		for _, r := range o.rows {
			if r.ID == f.ID {
				r.fail(f)
			}
		}
	}
	return nil
}

func (r *fakeOutput) fail(f store.Failure) {
	r.leased = time.Now().Add(f.After)
	if f.Reason != "" {
		r.reason = f.Reason
	}
	if f.Counted {
		r.Attempts++
	}
	if f.Dead {
		r.diedAt = time.Now()
	}
}

func (o *fakeOutbox) Backlog(context.Context) (b store.Backlog, err error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	for _, r := range o.rows {
		if r.diedAt.IsZero() {
			b.Unsent++
			b.Oldest = max(b.Oldest, time.Since(r.at))
		} else {
			b.Dead++
		}
	}
	return b, nil
}

func (o *fakeOutbox) DeadOutputs(_ context.Context, limit int) (dead []store.DeadOutput, err error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	for _, r := range o.rows {
		if !r.diedAt.IsZero() && len(dead) < limit {
			dead = append(dead, store.DeadOutput{Output: r.Output, DiedAt: r.diedAt, Reason: r.reason})
		}
	}
	return dead, nil
}

func (o *fakeOutbox) ReviveOutputs(_ context.Context, ids ...store.OutputID) (n int64, err error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	for _, r := range o.rows {
		if !r.diedAt.IsZero() && (len(ids) == 0 || slices.Contains(ids, r.ID)) {
			r.diedAt, r.leased, r.Attempts = time.Time{}, time.Time{}, 0
			n++
		}
	}
	return n, nil
}

func (o *fakeOutbox) DropOutputs(_ context.Context, ids ...store.OutputID) (int64, error) {
	o.outboxMu.Lock()
	defer o.outboxMu.Unlock()
	before := len(o.rows)
	o.rows = slices.DeleteFunc(o.rows, func(r *fakeOutput) bool {
		return !r.diedAt.IsZero() && slices.Contains(ids, r.ID)
	})
	return int64(before - len(o.rows)), nil
}

// nopOutbox has no outputs.
type nopOutbox struct{}

func (nopOutbox) MarkSent(context.Context, ...store.OutputID) error { return nil }

func (nopOutbox) LeaseUnsent(context.Context, store.Lease) ([]store.Output, error) { return nil, nil }

func (nopOutbox) Postpone(context.Context, ...store.Failure) error { return nil }

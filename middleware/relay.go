package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// relay sends what nobody else will: outputs whose attempt died between its
// commit and their sending, and whose message does not come again. It is one
// goroutine's.
type relay struct {
	guard    *Guard
	circuits map[string]*circuit       // of topics that fail
	failed   map[store.OutputID]uint64 // what the route had sent when it failed
	lost     map[string]bool           // topics without a publisher, told in this run
}

const (
	// maxFailed bounds what is remembered of failed outputs. Without it a
	// failure counts one round later.
	maxFailed = 10_000
	// relayBackoffMax is the longest wait of an output whose failures count.
	relayBackoffMax = 15 * time.Minute
)

func newRelay(g *Guard) *relay {
	return &relay{guard: g, circuits: map[string]*circuit{}, failed: map[store.OutputID]uint64{}}
}

// drain sends until nothing is left that is old enough.
func (r *relay) drain(ctx context.Context) {
	began, total := time.Now(), Relayed{}
	r.lost = map[string]bool{}
	for ctx.Err() == nil {
		n, err := r.batch(ctx, &total)
		if err != nil && ctx.Err() == nil {
			total.Err = err
		}
		if err != nil || n == 0 {
			break
		}
	}
	total.Took = time.Since(began)
	if total.Sent > 0 || total.Failed > 0 || total.Dead > 0 || total.Err != nil {
		r.guard.observe(context.WithoutCancel(ctx), total)
	}
}

// batch leases outputs and sends them one by one, because an error of a batch
// would not tell which went out. What became of each is noted also when ctx
// ends meanwhile.
func (r *relay) batch(ctx context.Context, total *Relayed) (int, error) {
	c := &r.guard.config
	// Half of the lease is for sending; the other half is a margin, after which
	// somebody else may send the same.
	until := time.Now().Add(c.RelayLease / 2)
	outputs, err := r.guard.store.LeaseUnsent(ctx, store.Lease{
		Limit: c.RelayBatch, Older: c.RelayAge, For: c.RelayLease, Services: c.services(),
	})
	if err != nil {
		return 0, fmt.Errorf("lease unsent outputs: %w", err)
	}
	var sent []store.OutputID // also before, by an attempt
	var failures []store.Failure
	for _, o := range outputs {
		if ctx.Err() != nil || time.Now().After(until) {
			failures = append(failures, store.Failure{ID: o.ID})
			continue
		}
		if r.guard.sent.has(o.ID) {
			sent = append(sent, o.ID)
			continue
		}
		if f, ok := r.one(ctx, o); !ok {
			failures = append(failures, f)
			total.count(f)
			continue
		}
		sent = append(sent, o.ID)
		total.Sent++
	}
	return len(outputs), r.note(context.WithoutCancel(ctx), sent, failures)
}

// note tells the store. What it does not learn is sent again when the lease is
// over, unless this process still remembers.
func (r *relay) note(ctx context.Context, sent []store.OutputID, failures []store.Failure) error {
	ctx, cancel := context.WithTimeout(ctx, r.guard.config.Commit)
	defer cancel()
	var errs []error
	if len(sent) > 0 {
		if err := r.guard.store.MarkSent(ctx, sent...); err != nil {
			r.guard.sent.add(sent...)
			errs = append(errs, fmt.Errorf("mark sent outputs: %w", err))
		}
	}
	if len(failures) > 0 {
		if err := r.guard.store.Postpone(ctx, failures...); err != nil {
			errs = append(errs, fmt.Errorf("postpone unsent outputs: %w", err))
		}
	}
	return errors.Join(errs...)
}

// one sends one output, or says what is to become of it.
func (r *relay) one(ctx context.Context, o store.Output) (f store.Failure, ok bool) {
	route, err := r.guard.routes.find(lane{o.Consumer, o.Topic})
	if err != nil {
		return r.homeless(ctx, o, err), false
	}
	if wait := r.held(o.Topic); wait > 0 {
		return store.Failure{ID: o.ID, After: wait}, false
	}
	if err = publishSafely(ctx, route, o); err == nil {
		delete(r.failed, o.ID)
		delete(r.circuits, o.Topic)
		r.guard.handovers.sent(o.ID)
		return f, true
	}
	f = r.failure(o, route, err)
	r.tell(ctx, o, f, err)
	return f, false
}

func (r *relay) tell(ctx context.Context, o store.Output, f store.Failure, err error) {
	r.guard.outputFailed(ctx, OutputFailed{
		Consumer: o.Consumer, Topic: o.Topic, UUID: o.UUID, ID: o.ID, Err: err,
		Attempts: o.Attempts, Relayed: true, Retry: f.After, Dead: f.Dead,
	})
}

// homeless is what becomes of an output that no publisher is known for.
func (r *relay) homeless(ctx context.Context, o store.Output, err error) store.Failure {
	f := store.Failure{ID: o.ID, After: jitter(max(circuitMax, r.guard.config.RelayEvery)), Reason: err.Error()}
	if !r.lost[o.Topic] {
		r.lost[o.Topic] = true
		r.tell(ctx, o, f, err)
	}
	return f
}

// held is how long an output of a topic has to wait without having been tried.
func (r *relay) held(topic string) time.Duration {
	c := r.circuits[topic]
	switch {
	case c == nil:
		return 0
	case c.sends != r.guard.routes.sends(topic): // an attempt got through
		delete(r.circuits, topic)
		return 0
	default:
		return max(0, time.Until(c.until))
	}
}

func (r *relay) circuit(topic string) *circuit {
	c := r.circuits[topic]
	if c == nil {
		if len(r.circuits) >= learnedTopics {
			clear(r.circuits)
		}
		c = &circuit{sends: r.guard.routes.sends(topic)}
		r.circuits[topic] = c
	}
	return c
}

func publishSafely(ctx context.Context, k *route, o store.Output) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the publisher panicked: %v", p)
		}
	}()
	return k.publish(o.Consumer, o.Topic, messageOf(ctx, o))
}

// failure decides about an output that could not be sent. It counts only when
// the publisher sent something else since the output failed before: a publisher
// that is down altogether is no output's fault.
func (r *relay) failure(o store.Output, k *route, err error) store.Failure {
	c := &r.guard.config
	wait := r.circuit(o.Topic).failed(c.RelayEvery)
	f := store.Failure{ID: o.ID, Reason: err.Error(), Counted: r.counts(o.ID, k)}
	switch {
	case store.ClassOf(err) == store.ClassPermanent:
		f.Counted, f.Dead = true, true
	case f.Counted && o.Attempts+1 >= c.RelayAttempts:
		f.Dead = true
	case f.Counted:
		f.After = delay(c.RelayEvery, max(relayBackoffMax, c.RelayEvery), o.Attempts+1)
	default: // behind those that were not tried yet
		f.After = 2 * max(wait, c.RelayEvery)
	}
	if f.Dead {
		delete(r.failed, o.ID)
	}
	return f
}

// counts notes a failure and reports whether the publisher is known to have
// worked since the one before.
func (r *relay) counts(id store.OutputID, k *route) bool {
	sends := k.sends.Load()
	before, known := r.failed[id]
	if len(r.failed) >= maxFailed {
		clear(r.failed)
	}
	r.failed[id] = sends
	return known && sends > before
}

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/watermill-once/watermill-once/examples/payments"
)

// result is what one run came to.
type result struct {
	guarding   guarding
	audit      audit
	receipts   receiptAudit
	messages   int
	deliveries int
	duplicates int
	kills      int
}

// runAll gives the same stream to the three consumers in turn.
func runAll(ctx context.Context, o options, out io.Writer) ([]result, error) {
	setUpLog(o.verbose)
	p := newPlan(o.seed, o.messages, o.kills)
	introduce(out, o, p)
	show := newDisplay(os.Stderr)
	results := make([]result, 0, len(guardings))
	for _, g := range guardings {
		r := &run{options: o, guarding: g, plan: p, tally: newTally(len(p.sendings)), receipts: newReceipts(p), show: show}
		result, err := r.do(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// run is one way through the stream, with one guarding, on a fresh database.
type run struct {
	options  options
	guarding guarding
	plan     *plan
	tally    *tally
	receipts *receipts
	show     display

	database *database
	broker   broker
}

func (r *run) do(ctx context.Context) (_ result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.timeout, fmt.Errorf("not done after %s (see -timeout)", r.options.timeout))
	defer cancel()
	name := freshName()
	if r.database, err = newDatabase(ctx, r.options.store, name, r.plan.opening()); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, r.database.close(ctx)) }()
	if r.broker, err = r.newBroker(name); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, r.broker.close()) }()

	r.show.begin(r.guarding, len(r.plan.sendings))
	kills, err := r.consumeAll(ctx)
	r.show.end()
	if err != nil {
		return result{}, err
	}
	if err := r.broker.collect(ctx, r.receipts); err != nil {
		return result{}, why(ctx, err)
	}
	return r.result(ctx, kills)
}

func (r *run) newBroker(name string) (broker, error) {
	if r.options.broker == "kafka" {
		return newKafkaBroker(r.plan, name, r.options.verbose)
	}
	return &pipeBroker{plan: r.plan, tally: r.tally}, nil
}

func (r *run) assignment(k kill) assignment {
	done, _ := r.tally.now()
	a := assignment{
		Guarding: r.guarding,
		Broker:   r.options.broker,
		Store:    r.options.store,
		DSN:      r.database.dsn,
		Seed:     r.options.seed,
		Hang:     hang{Moment: k.moment, After: max(0, k.at-done)},
		Verbose:  r.options.verbose,
	}
	r.broker.assign(&a)
	return a
}

// heard takes a consumer's report, and says when to kill it.
func (r *run) heard(report report) (kill bool) {
	kill = r.tally.apply(report)
	if report.Event == eventReceipt {
		r.receipts.note(report.Receipt)
	}
	done, _ := r.tally.now()
	r.show.progress(done)
	return kill
}

// result audits the books when all consumers are gone.
func (r *run) result(ctx context.Context, kills int) (result, error) {
	books, err := payments.ReadBooks(ctx, r.database.store.DB())
	if err != nil {
		return result{}, err
	}
	return result{
		guarding:   r.guarding,
		audit:      newLedger(r.plan).audit(books),
		receipts:   r.receipts.audit(),
		messages:   len(r.plan.orders),
		deliveries: r.tally.deliveries,
		duplicates: r.tally.duplicates,
		kills:      kills,
	}, nil
}

// freshName is a name for a run's database and topic.
func freshName() string {
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails
	return "once_demo_" + hex.EncodeToString(random[:])
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/examples/payments"
	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// consumerArg is the one argument by which this program knows that it is to be
// the child.
const consumerArg = "consume"

// consumerMain is the child's main. Ctrl-C reaches it too, but when it ends is
// up to its parent.
func consumerMain() (status int) {
	signal.Ignore(os.Interrupt)
	if err := consume(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo: consumer:", err)
		return 1
	}
	return 0
}

// consume handles messages until in ends.
func consume(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	c := &consumer{reports: newReporter(out), origins: newOrigins(), alone: make(chan struct{})}
	if err := lines.Decode(&c.assignment); err != nil {
		return fmt.Errorf("read the assignment: %w", err)
	}
	setUpLog(c.assignment.Verbose)

	var err error
	c.store, err = openStore(c.assignment.Store, c.assignment.DSN)
	if err != nil {
		return err
	}
	defer c.store.Close()
	return c.run(ctx, lines)
}

// consumer is the process that is killed.
type consumer struct {
	assignment assignment
	store      *store.SQL
	guard      *once.Guard // nil without this library
	source     source
	reports    *reporter
	origins    *origins
	alone      chan struct{} // closed when the parent is gone, or says stop
}

// source is where a consumer's messages come from, and where its receipts go.
type source struct {
	topic      string
	subscriber message.Subscriber

	receiptsTopic string
	publisher     message.Publisher

	// pump works until the parent says stop, which is the end of its lines.
	pump func(lines *json.Decoder) error
	// acked, if not nil, is called for each message.
	acked func()
}

func (c *consumer) run(ctx context.Context, lines *json.Decoder) error {
	router, err := c.router() //nolint:contextcheck // messages bring their own
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	select {
	case <-router.Running():
	case err := <-ended: // a router that cannot start never says that it runs
		return fmt.Errorf("start the router: %w", err)
	}

	pumped := make(chan error, 1)
	go func() {
		defer close(c.alone)
		pumped <- c.source.pump(lines)
	}()
	select {
	case err = <-pumped:
	case err = <-ended:
		return fmt.Errorf("the router ended by itself: %w", err)
	}
	return errors.Join(err, c.close(ctx, router))
}

// router wires source, guarding and handler.
func (c *consumer) router() (*message.Router, error) {
	var err error
	if c.source, err = openSource(c.assignment, c.reports); err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermillLog(c.assignment.Verbose))
	if err != nil {
		return nil, fmt.Errorf("make a router: %w", err)
	}
	router.AddSubscriberDecorators(message.MessageTransformSubscriberDecorator(func(msg *message.Message) {
		c.reports.follow(msg, c.source.acked)
	}))
	faulty := newFaults(c.assignment.Seed).into(payments.Handle)
	handler, err := c.protect(router, faulty)
	if err != nil {
		return nil, err
	}
	publisher := newSender(c.source.publisher, c.reports, c.origins.of, c.assignment.Hang, func() { <-c.alone })
	router.AddHandler("transfer", c.source.topic, c.source.subscriber, c.source.receiptsTopic, publisher, handler)
	return router, nil
}

// close ends what works from the outside in: nothing is cut off.
func (c *consumer) close(ctx context.Context, router *message.Router) error {
	var errs []error
	if c.guard != nil {
		errs = append(errs, c.guard.Close(ctx))
	}
	errs = append(errs, router.Close())
	c.reports.wait()
	return errors.Join(errs...)
}

func openSource(a assignment, reports *reporter) (source, error) {
	if a.Broker == "kafka" {
		return openKafka(a)
	}
	return openGoChannel(reports), nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/postgres"
)

const stored = 10_000

// unclosed is a store that outlives its guards.
type unclosed struct{ *store.SQL }

func (unclosed) Close() error { return nil }

// counter is a publisher that counts, and tells when all are there.
type counter struct {
	n    atomic.Int64
	done chan struct{}
}

func (c *counter) Publish(_ string, msgs ...*message.Message) error {
	if c.n.Add(int64(len(msgs))) == stored {
		close(c.done)
	}
	return nil
}

func (*counter) Close() error { return nil }

// relayAgainstForwarder prints how fast stored outputs are drained: by our
// relay, and by Watermill's forwarder over watermill-sql. Both start with the
// messages stored, on one database, in turn.
func relayAgainstForwarder(ctx context.Context, out *json.Encoder) error {
	dsn := os.Getenv("ONCE_TEST_POSTGRES")
	if dsn == "" {
		return nil
	}
	s, err := postgres.Open(dsn, store.WithPrefix("bench_"), quiet())
	if err != nil {
		return err
	}
	defer s.Close()
	if err := fresh(ctx, s); err != nil {
		return err
	}
	var ours, ratio []float64
	for r := range 5 {
		runs := []func() (time.Duration, error){
			func() (time.Duration, error) { return drainOurs(ctx, s) },
			func() (time.Duration, error) { return drainForwarder(ctx, s.DB()) },
		}
		took := make([]time.Duration, 2)
		for i := range runs {
			which := (i + r) % 2
			if took[which], err = runs[which](); err != nil {
				return err
			}
		}
		ours = append(ours, float64(took[0].Microseconds())/stored)
		ratio = append(ratio, float64(took[1])/float64(took[0]))
	}
	return out.Encode(figure{
		Bench: fmt.Sprintf("postgres relay, %d stored outputs", stored), Ours: round(median(ours)), Unit: "µs",
		Peer: "watermill-sql with the forwarder", Ratio: round(median(ratio)), Want: ">= 1",
	})
}

// drainOurs stores outputs as ten handlers that died behind their commits would
// have left them, and times the relay.
func drainOurs(ctx context.Context, s *store.SQL) (time.Duration, error) {
	for range 10 {
		_, err := s.Do(ctx, store.Claim{Consumer: "bench/relay", Key: watermill.NewUUID()}, func(context.Context, *sqlx.Tx) ([]store.Output, error) {
			outputs := make([]store.Output, stored/10)
			for i := range outputs {
				outputs[i] = store.Output{UUID: watermill.NewUUID(), Topic: "topic", Payload: make([]byte, 1024)}
			}
			return outputs, nil
		})
		if err != nil {
			return 0, err
		}
	}
	guard, err := once.New(unclosed{s}, once.Config{
		Service: "bench", PurgeEvery: -1, Observer: once.NopObserver{}, RelayEvery: time.Millisecond, RelayAge: time.Millisecond,
	})
	if err != nil {
		return 0, err
	}
	c := &counter{done: make(chan struct{})}
	if err := guard.Relay(c); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := guard.Start(ctx); err != nil {
		return 0, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	took := time.Since(began)
	return took, guard.Close(ctx)
}

// drainForwarder does the same with watermill-sql and its defaults.
func drainForwarder(ctx context.Context, db *sqlx.DB) (time.Duration, error) {
	const topic = "bench_forwarder"
	logger := watermill.NewSlogLogger(slog.New(slog.DiscardHandler))
	for _, table := range []string{"watermill_" + topic, "watermill_offsets_" + topic} {
		if _, err := db.ExecContext(ctx, `DROP TABLE IF EXISTS "`+table+`"`); err != nil {
			return 0, err
		}
	}
	schema := wmsql.DefaultPostgreSQLSchema{}
	sub, err := wmsql.NewSubscriber(wmsql.BeginnerFromStdSQL(db.DB), wmsql.SubscriberConfig{
		SchemaAdapter: schema, OffsetsAdapter: wmsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, logger)
	if err != nil {
		return 0, err
	}
	if err := sub.SubscribeInitialize(topic); err != nil {
		return 0, err
	}
	pub, err := wmsql.NewPublisher(wmsql.BeginnerFromStdSQL(db.DB), wmsql.PublisherConfig{SchemaAdapter: schema}, logger)
	if err != nil {
		return 0, err
	}
	into := forwarder.NewPublisher(pub, forwarder.PublisherConfig{ForwarderTopic: topic})
	for range 10 {
		messages := make([]*message.Message, stored/10)
		for i := range messages {
			messages[i] = message.NewMessage(watermill.NewUUID(), make([]byte, 1024))
		}
		if err := into.Publish("topic", messages...); err != nil {
			return 0, err
		}
	}
	c := &counter{done: make(chan struct{})}
	f, err := forwarder.NewForwarder(sub, c, logger, forwarder.Config{ForwarderTopic: topic})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	select {
	case <-c.done:
	case err := <-ran:
		return 0, fmt.Errorf("the forwarder ended: %w", err)
	}
	took := time.Since(began)
	if err := f.Close(); err != nil {
		return 0, err
	}
	return took, <-ran
}

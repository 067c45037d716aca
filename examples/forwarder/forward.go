package forwarder

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// outbox is the topic of watermill-sql, which makes a table of that name.
const outbox = "outbox"

// Dialect is what watermill-sql needs to know of a database. Both are its
// default schemas; the queue schema for PostgreSQL loses messages of a batch
// that were not acked.
type Dialect struct {
	Schema  sql.SchemaAdapter
	Offsets sql.OffsetsAdapter
}

// PostgreSQL and MySQL are the dialects that watermill-sql has.
func PostgreSQL() Dialect {
	return Dialect{sql.DefaultPostgreSQLSchema{}, sql.DefaultPostgreSQLOffsetsAdapter{}}
}

// MySQL is for MariaDB too.
func MySQL() Dialect { return Dialect{sql.DefaultMySQLSchema{}, sql.DefaultMySQLOffsetsAdapter{}} }

// Forward publishes with watermill-sql in the claim's transaction, into the
// table that [Migrate] created. A [Daemon] moves the messages on.
func Forward(d Dialect) Publish {
	return func(ctx context.Context, topic string, msgs ...*message.Message) error {
		tx, err := once.Tx(ctx)
		if err != nil {
			return err
		}
		// One for each transaction; it holds nothing and need not be closed.
		rows, err := sql.NewPublisher(sql.TxFromStdSQL(tx.Tx), sql.PublisherConfig{SchemaAdapter: d.Schema}, watermill.NopLogger{})
		if err != nil {
			return fmt.Errorf("publish in the transaction: %w", err)
		}
		// The statement runs under the context of the first message.
		return forwarder.NewPublisher(rows, forwarder.PublisherConfig{ForwarderTopic: outbox}).Publish(topic, msgs...)
	}
}

// Migrate creates the tables of [Forward]. Run it before the first order comes:
// inside an attempt nothing may create them.
func Migrate(db *sqlx.DB, d Dialect) error {
	rows, err := subscriber(db, d, time.Second)
	if err != nil {
		return err
	}
	if err := rows.SubscribeInitialize(outbox); err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	return rows.Close()
}

// Daemon returns Watermill's forwarder from the table of [Forward] to out. The
// caller runs it and closes it. poll is how often it looks for messages. On db
// it keeps a transaction open while it hands over a batch.
func Daemon(db *sqlx.DB, d Dialect, out message.Publisher, poll time.Duration) (*forwarder.Forwarder, error) {
	rows, err := subscriber(db, d, poll)
	if err != nil {
		return nil, err
	}
	daemon, err := forwarder.NewForwarder(rows, out, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: outbox})
	if err != nil {
		return nil, fmt.Errorf("make the forwarder: %w", err)
	}
	return daemon, nil
}

func subscriber(db *sqlx.DB, d Dialect, poll time.Duration) (*sql.Subscriber, error) {
	rows, err := sql.NewSubscriber(sql.BeginnerFromStdSQL(db.DB), sql.SubscriberConfig{
		SchemaAdapter:  d.Schema,
		OffsetsAdapter: d.Offsets,
		PollInterval:   poll,
		ResendInterval: poll,
		RetryInterval:  poll,
	}, watermill.NopLogger{})
	if err != nil {
		return nil, fmt.Errorf("subscribe to the table: %w", err)
	}
	return rows, nil
}

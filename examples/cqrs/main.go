package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

type (
	PlaceOrder  struct{ ID, Item string }
	OrderPlaced struct{ ID, Item string }
	SendMail    struct{ Order string }
)

// The buses publish through the guard: inside a handler that is into the claim's
// transaction, and on the way only after the commit.
type shop struct {
	events   *cqrs.EventBus
	commands *cqrs.CommandBus
}

func (s shop) placeOrder(ctx context.Context, cmd *PlaceOrder) error {
	if err := exec(ctx, `INSERT INTO orders (id, item) VALUES (?, ?)`, cmd.ID, cmd.Item); err != nil {
		return err
	}
	if err := s.events.Publish(ctx, OrderPlaced(*cmd)); err != nil { // ctx tells the guard whose it is
		return err
	}
	if cmd.Item == "unicorn" {
		return errors.New("out of stock") // takes the order and its event back
	}
	return nil
}

func (s shop) countItem(ctx context.Context, e *OrderPlaced) error {
	return exec(ctx, `INSERT INTO items VALUES (?, 1) ON CONFLICT (item) DO UPDATE SET sold = sold + 1`, e.Item)
}

func (s shop) thankCustomer(ctx context.Context, e *OrderPlaced) error {
	return s.commands.Send(ctx, SendMail{Order: e.ID})
}

func (s shop) sendMail(ctx context.Context, cmd *SendMail) error {
	return exec(ctx, `INSERT INTO mails VALUES (?)`, cmd.Order)
}

// exec writes in the claim's transaction.
func exec(ctx context.Context, query string, args ...any) error {
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, query, args...)
	return err
}

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cqrs-")
	check(err)
	defer os.RemoveAll(dir)
	dsn, err := sqlite.DSN(filepath.Join(dir, "shop.db"))
	check(err)
	db := sqlx.MustConnect("sqlite", dsn)
	defer db.Close()
	db.MustExec(`CREATE TABLE orders (id TEXT, item TEXT); CREATE TABLE items (item TEXT PRIMARY KEY, sold INTEGER); CREATE TABLE mails (order_id TEXT)`)

	claims := sqlite.New(db)
	check(claims.Migrate(ctx))
	guard, err := once.New(claims, once.Config{Service: "shop", Observer: once.NopObserver{}})
	check(err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	check(err)
	router.AddPlugin(guard.Plugin)
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	check(assemble(router, broker, guard.Publisher(&unreliable{Publisher: broker})))
	go func() { check(router.Run(ctx)) }()
	<-router.Running()

	// Publish returns when the message, and all that came of it, is acked.
	orders := unreliable{Publisher: broker, calm: true}
	for _, cmd := range []PlaceOrder{{"1", "hat"}, {"2", "unicorn"}, {"3", "hat"}} {
		msg, err := marshaler.Marshal(cmd)
		check(err)
		check(orders.Publish("PlaceOrder", msg))
	}
	for _, query := range []string{`SELECT 'order ' || id || ': ' || item FROM orders`, `SELECT sold || ' sold: ' || item FROM items`, `SELECT 'mail for ' || order_id FROM mails`} {
		var lines []string
		check(db.Select(&lines, query+` ORDER BY 1`))
		for _, line := range lines {
			fmt.Println(line)
		}
	}
	check(guard.Close(ctx))
	check(router.Close())
}

var marshaler = cqrs.JSONMarshaler{GenerateName: cqrs.StructName}

// assemble is the CQRS component as Watermill documents it, but for two lines:
// pub is the guard's, and OnHandle reports what AckCommandHandlingErrors hides.
func assemble(router *message.Router, broker message.Subscriber, pub message.Publisher) error {
	events, err1 := cqrs.NewEventBusWithConfig(pub, cqrs.EventBusConfig{Marshaler: marshaler, GeneratePublishTopic: func(p cqrs.GenerateEventPublishTopicParams) (string, error) { return p.EventName, nil }})
	commands, err2 := cqrs.NewCommandBusWithConfig(pub, cqrs.CommandBusConfig{Marshaler: marshaler, GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return p.CommandName, nil }})
	cp, err3 := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
		Marshaler:                marshaler,
		GenerateSubscribeTopic:   func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) { return p.CommandName, nil },
		SubscriberConstructor:    func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) { return broker, nil },
		AckCommandHandlingErrors: true,
		OnHandle:                 oncecqrs.OnCommand(nil),
	})
	ep, err4 := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		Marshaler:              marshaler,
		GenerateSubscribeTopic: func(p cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return p.EventName, nil },
		SubscriberConstructor:  func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) { return broker, nil },
	})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	s := shop{events, commands}
	return errors.Join( // each name is a consumer with claims of its own: keep it
		cp.AddHandlers(cqrs.NewCommandHandler("place-order", s.placeOrder), cqrs.NewCommandHandler("send-mail", s.sendMail)),
		ep.AddHandlers(cqrs.NewEventHandler("count-item", s.countItem), cqrs.NewEventHandler("thank-customer", s.thankCustomer)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Command quickstart delivers one payment twice and charges it once. It needs
// no server: the broker is a Go channel, the database a SQLite file.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "quickstart-")
	check(err)
	defer os.RemoveAll(dir)
	db := openDatabase(filepath.Join(dir, "bank.db")) // the application's own pool
	defer db.Close()

	claims := sqlite.New(db)
	check(claims.Migrate(ctx)) // the library's tables

	guard, err := once.New(claims, once.Config{Service: "billing"})
	check(err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	check(err)
	router.AddPlugin(guard.Plugin) // every handler's effects happen once

	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	router.AddConsumerHandler("charge", "payments", broker, charge)
	go func() { check(router.Run(ctx)) }()
	<-router.Running()

	payment := message.NewMessage(watermill.NewUUID(), []byte("30"))
	check(broker.Publish("payments", payment))
	check(broker.Publish("payments", payment)) // as brokers do: once more

	var balance int
	check(db.Get(&balance, `SELECT balance FROM accounts WHERE id = 'alice'`))
	fmt.Println("balance:", balance)

	check(guard.Close(ctx))
	check(router.Close())
}

// charge is the handler. What it writes commits together with the claim, the
// guard's note that this message was handled, and before the broker is told.
func charge(msg *message.Message) error {
	tx, err := once.Tx(msg.Context())
	if err != nil {
		return err
	}
	amount, err := strconv.Atoi(string(msg.Payload))
	if err != nil {
		return once.Permanent(err)
	}
	_, err = tx.ExecContext(msg.Context(), `UPDATE accounts SET balance = balance - ? WHERE id = 'alice'`, amount)
	return err
}

func openDatabase(path string) *sqlx.DB {
	dsn, err := sqlite.DSN(path)
	check(err)
	db := sqlx.MustConnect("sqlite", dsn)
	db.MustExec(`CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)`)
	db.MustExec(`INSERT INTO accounts VALUES ('alice', 100)`)
	return db
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Command demo shows what duplicates, failing handlers and killed processes do
// to money, with this library and without.
//
//	go run ./examples/payments/demo                                   # no server
//	go run ./examples/payments/demo -broker=kafka -store=postgres
//	go run ./examples/payments/demo -help
//
// One stream of transfers goes through three consumers, one after the other,
// with the same handler: guarded by watermill-once, without any dedup, and
// behind Watermill's own Deduplicator.
//
//	parent: producer and ledger                  child: the consumer
//	  plan.go       what is sent, when to kill     consumer.go      router, handler, reports
//	  ledger.go     what the books should say      guarding.go      the three ways
//	  run.go        starts, kills, audits          faults.go        the handler fails now and then
//	  process.go    the child's process            gochannel_consumer.go, kafka_consumer.go
//	  gochannel.go, kafka.go   how messages get there
//	protocol.go     what they say to each other
//	database.go     one empty database a run
//
// The parent starts itself again as the child (consumer.go), and kills it with
// SIGKILL. With -broker=gochannel the messages go through the child's stdin and
// the parent sends again what has no ack, as a broker does; with -broker=kafka
// it is Kafka that delivers, and delivers again.
package main

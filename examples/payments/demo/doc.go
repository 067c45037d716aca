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
//	  receipts.go   what arrived of what was sent  faults.go        the handler fails now and then
//	  run.go        one run and its audit          sender.go        how receipts leave it
//	  consumers.go  starts and kills them          origins.go       who sends them
//	  process.go    one of them, from outside      pipe_publisher.go
//	  gochannel.go, kafka.go   how messages get    gochannel_consumer.go, kafka_consumer.go
//	  there; kafka_reader.go   and come back
//	protocol.go     what they say to each other
//	database.go     one empty database a run
//
// The parent starts itself again as the child (consumer.go), and kills it with
// SIGKILL: between the commit and the sending of a receipt, between its sending
// and the ack, and at random. With -broker=gochannel the
// messages go through the child's stdin, receipts come through its stdout, and
// the parent sends again what has no ack, as a broker does; with -broker=kafka it
// is Kafka that delivers, and delivers again, and keeps the receipts in a topic.
package main

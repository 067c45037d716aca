// Command cqrs is a shop in small: the command PlaceOrder writes an order and
// raises OrderPlaced; a read model counts it; a policy answers it with the
// command SendMail. Every message comes twice, as brokers do, one publish fails
// after its commit, and one order fails half-way: see main.go for what stays.
//
// It needs no server: the broker is a Go channel, the database a SQLite file.
//
//	go run ./examples/cqrs
package main

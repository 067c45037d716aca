// Package billing shows how a handler is tested without a server, in
// milliseconds and without sleeps: see handler_test.go for the handler alone,
// and router_test.go for the way of a message through broker, guard and
// database.
package billing

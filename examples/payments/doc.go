// Package payments moves money between accounts, message by message.
//
// Handle is the one handler, the same for every database and every broker. The
// program in demo runs it under duplicates, failures and kills; start there:
//
//	make demo
//	make demo BROKER=kafka STORE=postgres
package payments

package main

import "encoding/json"

// Parent and child talk in lines of JSON: the parent through the child's stdin,
// where the first line is the assignment and the end means "stop"; the child
// through its stdout. So a child also ends when its parent dies.

// assignment is all that a consumer has to know. It goes through a pipe since
// everybody on the machine can read a process's arguments, and DSNs hold
// passwords.
type assignment struct {
	Guarding guarding  `json:"guarding"`
	Broker   string    `json:"broker"`
	Store    string    `json:"store"`
	DSN      string    `json:"dsn"`
	Kafka    kafkaSeat `json:"kafka"`
	Seed     uint64    `json:"seed"`
	Verbose  bool      `json:"verbose"`
}

// parcel is a message on its way from the producer. A transfer that is sent
// twice is two sendings with one UUID.
type parcel struct {
	Sending int             `json:"sending"`
	UUID    string          `json:"uuid"`
	Payload json.RawMessage `json:"payload"`
}

// report is what a consumer says about a message.
type report struct {
	Event   event `json:"event"`
	Sending int   `json:"sending"`
}

type event string

const (
	eventDelivered event = "delivered" // the broker handed it over
	eventAcked     event = "acked"     // the broker may forget it
	eventNacked    event = "nacked"    // the broker is to deliver it again
	eventDuplicate event = "duplicate" // it was recognised as one
)

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
	Hang     hang      `json:"hang"`
	Verbose  bool      `json:"verbose"`
}

// moment is what a consumer is killed in the middle of. Its text is what the
// display says.
type moment string

const (
	// anywhere is wherever the messages in flight happen to be.
	anywhere      moment = "at random"
	beforeSending moment = "between commit and sending"
	afterSending  moment = "between sending and ack"
)

// hang tells a consumer to stop in the middle of a receipt and to wait there for
// its end: neither moment lasts long enough for a kill from outside to hit it
// each time.
type hang struct {
	Moment moment `json:"moment"`
	After  int    `json:"after"` // so many acks
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
	Event   event   `json:"event"`
	Sending int     `json:"sending,omitempty"`
	Receipt receipt `json:"receipt,omitzero"`
}

type event string

const (
	eventDelivered event = "delivered" // the broker handed it over
	eventAcked     event = "acked"     // the broker may forget it
	eventNacked    event = "nacked"    // the broker is to deliver it again
	eventDuplicate event = "duplicate" // it was recognised as one
	eventReceipt   event = "receipt"   // a receipt was sent (not over Kafka)
	eventHung      event = "hung"      // the consumer is where it is to be killed
)

// receipt is a receipt as it arrives.
type receipt struct {
	UUID    string `json:"uuid"`
	Payload string `json:"payload"`
	SentBy  sentBy `json:"sent_by"`
}

// sentBy says who sent a receipt.
type sentBy string

const (
	byAttempt   sentBy = "attempt"   // whose handler returned it
	byDuplicate sentBy = "duplicate" // of a message that another process handled
	byRelay     sentBy = "relay"
)

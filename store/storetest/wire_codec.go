package storetest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errOpaque is a client that asks for what the wire cannot read through.
var errOpaque = errors.New("the wire cannot read through this")

// codec reads the two directions of one connection. request is called by one
// goroutine and message by another.
type codec interface {
	// request reads what the client sends until the server would act on it.
	request(in *bufio.Reader) (*request, error)
	// message reads one message of the server.
	message(in *bufio.Reader) ([]byte, error)
}

// request is what travels to the server at once.
type request struct {
	raw        []byte
	statements []Statement
	// answer follows the server's answer; nil when there is none.
	answer answer
	// counts is true when the answered request is a round trip.
	counts bool
	// reply, when set, is what the wire answers itself; raw does not travel.
	reply []byte

	after []hit // the faults behind it
	epoch int   // the record's, when it was sent
}

func (r *request) list(kind Kind, text string) {
	r.statements = append(r.statements, Statement{Kind: kind, Text: text})
}

// orSync lists the Sync when nothing else is.
func (r *request) orSync() *request {
	if len(r.statements) == 0 {
		r.list(KindSync, "")
	}
	return r
}

func (r *request) expect(a answer) *request {
	r.answer, r.counts = a, true
	return r
}

// answer follows the server's answer to one request. It is used by one
// goroutine.
type answer interface {
	see(msg []byte) answerState
}

// answerState is what a message of the server means for an answer.
type answerState int

const (
	// answerMore: there is more to come.
	answerMore answerState = iota
	// answerPause: the server waits for the client, which must see what was
	// answered so far (COPY FROM STDIN, LOAD DATA LOCAL, the steps of a login).
	answerPause
	// answerDone: the message was the answer's last.
	answerDone
	// answerOver: the answer had ended before; the message is the next one's.
	answerOver
)

// readFull reads n bytes. It takes memory as they arrive and not as announced,
// so that nonsense on the wire costs nothing.
func readFull(in *bufio.Reader, n int) ([]byte, error) {
	if n <= in.Size() {
		b := make([]byte, n)
		_, err := io.ReadFull(in, b)
		return b, err
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, in, int64(n))
	return b.Bytes(), err
}

package storetest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// The codes in the place of a protocol version.
const (
	pgCancel = 80877102
	pgSSL    = 80877103
	pgGSS    = 80877104
)

// maxMessage is PostgreSQL's own limit for one message.
const maxMessage = 1 << 30

// postgresCodec reads version 3 of PostgreSQL's protocol:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
type postgresCodec struct {
	backend func(uint32)
	started bool
	// texts of prepared statements and of portals, by name. A Parse that the
	// server refused leaves its text behind, which nothing can execute.
	prepared, portals map[string]string
	// last is the text run last; while copying is true it is a COPY.
	last    string
	copying bool
}

func newPostgresCodec(backend func(uint32)) *postgresCodec {
	return &postgresCodec{backend: backend, prepared: map[string]string{}, portals: map[string]string{}}
}

func (c *postgresCodec) message(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(5)
	if err != nil {
		return nil, err
	}
	return readSized(in, head[1:], 1)
}

// readSized reads a message whose length, in the four bytes of size, counts
// all but the first extra bytes.
func readSized(in *bufio.Reader, size []byte, extra int) ([]byte, error) {
	n := int(binary.BigEndian.Uint32(size))
	if n < 4 || n > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	return readFull(in, n+extra)
}

// request reads up to a message at which the server acts. Bind and Describe
// are not listed: Execute and Parse stand for them.
func (c *postgresCodec) request(in *bufio.Reader) (*request, error) {
	if !c.started {
		return c.startup(in)
	}
	req, replies := &request{}, 0
	for {
		msg, err := c.message(in)
		if err != nil {
			return nil, err
		}
		req.raw = append(req.raw, msg...)
		body := msg[5:]
		switch kind := msg[0]; kind {
		case 'P', 'B', 'D', 'E', 'C':
			replies++
			c.extended(req, kind, body)
		case 'Q':
			c.last = cString(&body)
			req.list(queryKind(c.last), c.last)
			return req.expect(&postgresAnswer{}), nil
		case 'F':
			req.list(KindOther, "FunctionCall")
			return req.expect(&postgresAnswer{}), nil
		case 'S':
			return req.orSync().expect(&postgresAnswer{}), nil
		case 'H':
			if replies == 0 {
				return req, nil
			}
			return req.orSync().expect(&postgresAnswer{flushed: true, left: replies}), nil
		default:
			c.unanswered(req, kind)
			return req, nil
		}
	}
}

// extended follows the extended query protocol.
func (c *postgresCodec) extended(req *request, kind byte, body []byte) {
	switch kind {
	case 'P':
		name, text := cString(&body), cString(&body)
		c.prepared[name] = text
		req.list(KindPrepare, text)
	case 'B':
		portal, name := cString(&body), cString(&body)
		c.portals[portal] = c.prepared[name]
	case 'E':
		c.last = c.portals[cString(&body)]
		req.list(KindExecute, c.last)
	case 'C':
		names := c.prepared
		if len(body) > 0 && body[0] == 'P' {
			names = c.portals
		}
		body = body[min(1, len(body)):]
		name := cString(&body)
		req.list(KindClose, names[name])
		delete(names, name)
	}
}

// unanswered lists a message that has no answer of its own.
func (c *postgresCodec) unanswered(req *request, kind byte) {
	switch kind {
	case 'd':
		if !c.copying {
			req.list(KindCopy, c.last)
		}
		c.copying = true
	case 'c', 'f':
		c.copying = false
		req.list(KindCopyEnd, c.last)
	case 'X':
		req.list(KindQuit, "")
	case 'p': // a step of the login
	default:
		req.list(KindOther, fmt.Sprintf("message %q", kind))
	}
}

// startup reads the messages before the protocol proper, which have no type.
func (c *postgresCodec) startup(in *bufio.Reader) (*request, error) {
	head, err := in.Peek(8)
	if err != nil {
		return nil, err
	}
	code := binary.BigEndian.Uint32(head[4:])
	raw, err := readSized(in, head[:4], 0)
	if err != nil {
		return nil, err
	}
	req := &request{raw: raw}
	switch code {
	case pgSSL, pgGSS:
		req.reply = []byte{'N'} // no: the client decides whether it goes on in plain text
	case pgCancel:
		if len(raw) < 12 {
			return nil, fmt.Errorf("a cancel request of %d bytes", len(raw))
		}
		req.statements = []Statement{{Kind: KindCancel, Backend: binary.BigEndian.Uint32(raw[8:])}}
	default:
		c.started = true
		req.list(KindConnect, "")
		req.answer = &postgresLogin{backend: c.backend}
	}
	return req, nil
}

// queryKind tells a query from a driver's ping: comments and semicolons only.
func queryKind(text string) Kind {
	for line := range strings.Lines(text) {
		if line = strings.Trim(line, "; \t\r\n"); line != "" && !strings.HasPrefix(line, "--") {
			return KindQuery
		}
	}
	return KindPing
}

// cString takes a string that ends in a zero byte off the front of body.
func cString(body *[]byte) string {
	text, rest, _ := bytes.Cut(*body, []byte{0})
	*body = rest
	return string(text)
}

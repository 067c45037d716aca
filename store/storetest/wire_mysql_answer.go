package storetest

import (
	"bytes"
	"encoding/binary"
)

// The first byte of a packet of the server, where it says what the packet is.
const (
	packetOK     = 0x00
	packetInfile = 0xfb
	packetEOF    = 0xfe
	packetErr    = 0xff
)

// Bits of the server's status.
const (
	statusMoreResults = 1 << 3
	statusCursor      = 1 << 6
)

// first returns the first byte of a packet; that of an empty one counts as a
// value in a row.
func first(body []byte) byte {
	if len(body) == 0 {
		return 1
	}
	return body[0]
}

// mysqlGreeting follows the server's first packet, which names the connection.
type mysqlGreeting struct{ backend func(uint32) }

func (a *mysqlGreeting) see(msg []byte) answerState {
	body := msg[4:]
	// A protocol version, the server's version as a string, the connection id.
	if end := bytes.IndexByte(body, 0); first(body) != packetErr && end > 0 && len(body) >= end+5 {
		a.backend(binary.LittleEndian.Uint32(body[end+1:]))
	}
	return answerDone
}

// mysqlLogin follows the answer to a login: it ends with OK or an error, and
// anything else is for the client to go on with.
type mysqlLogin struct{}

func (mysqlLogin) see(msg []byte) answerState {
	if kind := first(msg[4:]); kind == packetOK || kind == packetErr {
		return answerDone
	}
	return answerPause
}

// mysqlOne is an answer of one packet.
type mysqlOne struct{}

func (mysqlOne) see([]byte) answerState { return answerDone }

// mysqlPrepared follows the answer to a prepare.
type mysqlPrepared struct {
	caps  uint64
	named func(id uint32)
	left  int // packets to come; set by the first
	open  bool
}

func (a *mysqlPrepared) see(msg []byte) answerState {
	body := msg[4:]
	if !a.open {
		a.open = true
		if first(body) != packetOK || len(body) < 9 {
			return answerDone
		}
		a.named(binary.LittleEndian.Uint32(body[1:]))
		// The definitions of the columns and of the parameters, each with an
		// EOF behind when there are any.
		for _, at := range []int{5, 7} {
			if n := int(binary.LittleEndian.Uint16(body[at:])); n > 0 {
				a.left += n + eofPacket(a.caps)
			}
		}
	} else {
		a.left--
	}
	if a.left > 0 {
		return answerMore
	}
	return answerDone
}

// eofPacket is 1 when an EOF packet follows definitions, else 0.
func eofPacket(caps uint64) int {
	if caps&capDeprecateEOF != 0 {
		return 0
	}
	return 1
}

// resultState is where in a result the next packet stands.
type resultState int

const (
	inHead resultState = iota // OK, an error, or the number of columns
	inDefinitions
	inRows
)

// mysqlResults follows the answer to a query or an execute: one result or
// several, each a set of rows or an OK.
type mysqlResults struct {
	caps  uint64
	state resultState
	left  int // packets of definitions to come
}

func (a *mysqlResults) see(msg []byte) answerState {
	body := payload(msg)
	kind := first(body)
	if kind == packetErr { // no definition and no row begins with it
		return answerDone
	}
	switch a.state {
	case inHead:
		return a.head(kind, body)
	case inDefinitions:
		return a.definition(kind, body)
	default:
		return a.row(kind, body)
	}
}

func (a *mysqlResults) head(kind byte, body []byte) answerState {
	switch kind {
	case packetOK:
		return a.end(okStatus(body))
	case packetInfile:
		return answerPause
	}
	columns, width := lengthEncoded(body)
	a.left, a.state = int(columns)+eofPacket(a.caps), inDefinitions
	// MariaDB leaves out definitions that the client has from before.
	if a.caps&capCacheMetadata != 0 && len(body) > width && body[width] == 0 {
		a.left = eofPacket(a.caps)
	}
	if a.left == 0 {
		a.state = inRows
	}
	return answerMore
}

func (a *mysqlResults) definition(kind byte, body []byte) answerState {
	a.left--
	if a.left > 0 {
		return answerMore
	}
	a.state = inRows
	// With a cursor the rows come by fetch.
	if kind == packetEOF && len(body) == 5 && eofStatus(body)&statusCursor != 0 {
		return answerDone
	}
	return answerMore
}

// row also sees what ends the rows: an EOF, which is short, or an OK in its
// place. A value that begins with the same byte makes a row of 16 MiB at least.
func (a *mysqlResults) row(kind byte, body []byte) answerState {
	switch {
	case kind != packetEOF || len(body) >= splitPacket:
		return answerMore
	case a.caps&capDeprecateEOF != 0:
		return a.end(okStatus(body))
	case len(body) < 9:
		return a.end(eofStatus(body))
	}
	return answerMore
}

func (a *mysqlResults) end(status uint16) answerState {
	if status&statusMoreResults == 0 {
		return answerDone
	}
	a.state = inHead
	return answerMore
}

// okStatus reads the status of an OK packet, behind the number of rows and the
// last id.
func okStatus(body []byte) uint16 {
	_, rows := lengthEncoded(body[1:])
	_, id := lengthEncoded(body[min(1+rows, len(body)):])
	return status(body, 1+rows+id)
}

func eofStatus(body []byte) uint16 { return status(body, 3) }

func status(body []byte, at int) uint16 {
	if len(body) < at+2 {
		return 0
	}
	return binary.LittleEndian.Uint16(body[at:])
}

// lengthEncoded reads an integer and says how many bytes it takes.
func lengthEncoded(body []byte) (value uint64, width int) {
	if len(body) == 0 {
		return 0, 0
	}
	switch body[0] {
	case 0xfc:
		width = 2
	case 0xfd:
		width = 3
	case 0xfe:
		width = 8
	default:
		return uint64(body[0]), 1
	}
	for i := min(width, len(body)-1); i > 0; i-- {
		value = value<<8 | uint64(body[i])
	}
	return value, 1 + width
}

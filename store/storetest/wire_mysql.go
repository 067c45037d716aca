package storetest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
)

// Commands of MySQL's protocol:
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html
const (
	comQuit         = 0x01
	comInitDB       = 0x02
	comQuery        = 0x03
	comFieldList    = 0x04
	comPing         = 0x0e
	comChangeUser   = 0x11
	comStmtPrepare  = 0x16
	comStmtExecute  = 0x17
	comStmtLongData = 0x18
	comStmtClose    = 0x19
	comStmtReset    = 0x1a
	comStmtFetch    = 0x1c
	comResetConn    = 0x1f
	comStmtBulk     = 0xfa // MariaDB
)

// Capabilities that change what the wire must read. cacheMetadata is one of
// MariaDB's, at bit 36.
const (
	capMySQL           = 1 << 0 // not set by MariaDB and its clients, which have more capabilities
	capCompress        = 1 << 5
	capSSL             = 1 << 11
	capDeprecateEOF    = 1 << 24
	capQueryAttributes = 1 << 27
	capCacheMetadata   = 1 << 36
)

// splitPacket is the length of a packet that the next one continues.
const splitPacket = 1<<24 - 1

// lastPrepared is MariaDB's name for the statement prepared just before.
const lastPrepared = 1<<32 - 1

// mysqlCodec reads the client/server protocol of MySQL and MariaDB.
type mysqlCodec struct {
	backend func(uint32)
	started bool
	caps    uint64

	mu       sync.Mutex // the server names statements, the client uses the names
	prepared map[uint32]string
}

func newMySQLCodec(backend func(uint32)) *mysqlCodec {
	return &mysqlCodec{backend: backend, prepared: map[uint32]string{}}
}

// message reads one packet with what continues it, headers included.
func (c *mysqlCodec) message(in *bufio.Reader) ([]byte, error) {
	var msg []byte
	for {
		head, err := in.Peek(4)
		if err != nil {
			return nil, err
		}
		n := packetLength(head)
		packet, err := readFull(in, 4+n)
		if err != nil {
			return nil, err
		}
		if msg = append(msg, packet...); n < splitPacket {
			return msg, nil
		}
	}
}

func packetLength(head []byte) int {
	return int(head[0]) | int(head[1])<<8 | int(head[2])<<16
}

// payload joins the payloads of a packet and those that continue it.
func payload(msg []byte) []byte {
	n := packetLength(msg)
	if n < splitPacket {
		return msg[4:]
	}
	return append(append([]byte(nil), msg[4:4+n]...), payload(msg[4+n:])...)
}

// request reads one command. Packets whose number is not 0 continue an
// exchange: the steps of a login, the file of a LOAD DATA LOCAL.
func (c *mysqlCodec) request(in *bufio.Reader) (*request, error) {
	msg, err := c.message(in)
	if err != nil {
		return nil, err
	}
	req := &request{raw: msg}
	body := payload(msg)
	switch {
	case !c.started:
		return req, c.login(req, body)
	case msg[3] != 0 || len(body) == 0:
		return req, nil
	}
	c.command(req, body[0], body[1:])
	return req, nil
}

// login reads the client's answer to the server's greeting.
func (c *mysqlCodec) login(req *request, body []byte) error {
	c.started = true
	if len(body) < 32 {
		return fmt.Errorf("%w: a login of MySQL 4.0", errOpaque)
	}
	c.caps = uint64(binary.LittleEndian.Uint32(body))
	if c.caps&capMySQL == 0 {
		c.caps |= uint64(binary.LittleEndian.Uint32(body[28:])) << 32
	}
	switch {
	case c.caps&capSSL != 0:
		return fmt.Errorf("%w: TLS", errOpaque)
	case c.caps&capCompress != 0:
		return fmt.Errorf("%w: compression", errOpaque)
	}
	req.list(KindConnect, "")
	req.answer = mysqlLogin{}
	return nil
}

// command lists a command and says what answers it.
func (c *mysqlCodec) command(req *request, com byte, rest []byte) {
	switch com {
	case comQuery:
		req.list(KindQuery, c.queryText(rest))
		req.expect(&mysqlResults{caps: c.caps})
	case comStmtPrepare:
		text := string(rest)
		req.list(KindPrepare, text)
		req.expect(&mysqlPrepared{caps: c.caps, named: func(id uint32) { c.name(id, text) }})
	case comStmtExecute, comStmtBulk:
		req.list(KindExecute, c.statementText(rest))
		req.expect(&mysqlResults{caps: c.caps})
	case comStmtFetch:
		req.list(KindOther, c.statementText(rest))
		req.expect(&mysqlResults{caps: c.caps, state: inRows})
	case comStmtClose:
		req.list(KindClose, c.statementText(rest))
	case comStmtLongData:
		req.list(KindOther, c.statementText(rest))
	case comStmtReset:
		req.list(KindOther, c.statementText(rest))
		req.expect(mysqlOne{})
	case comQuit:
		req.list(KindQuit, "")
	case comPing:
		req.list(KindPing, "")
		req.expect(mysqlOne{})
	case comResetConn:
		req.list(KindReset, "")
		req.expect(mysqlOne{})
	case comChangeUser:
		req.list(KindReset, "")
		req.expect(mysqlLogin{})
	case comInitDB:
		req.list(KindOther, "USE "+string(rest))
		req.expect(mysqlOne{})
	case comFieldList:
		req.list(KindOther, "FIELDS")
		req.expect(&mysqlResults{caps: c.caps, state: inRows})
	default:
		req.list(KindOther, fmt.Sprintf("command %#x", com))
		req.expect(mysqlOne{})
	}
}

// queryText skips the attributes of a query, where client and server agreed on
// them and there are none, as always in Go.
func (c *mysqlCodec) queryText(rest []byte) string {
	if c.caps&capQueryAttributes != 0 {
		rest = bytes.TrimPrefix(rest, []byte{0, 1})
	}
	return string(rest)
}

func (c *mysqlCodec) name(id uint32, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prepared[id] = text
	c.prepared[lastPrepared] = text
}

func (c *mysqlCodec) statementText(rest []byte) string {
	if len(rest) < 4 {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prepared[binary.LittleEndian.Uint32(rest)]
}

package storetest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// packet frames a payload as MySQL does, split where it must be.
func packet(number byte, body []byte) []byte {
	n := min(len(body), splitPacket)
	framed := append([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}, body[:n]...)
	if n == splitPacket {
		framed = append(framed, packet(number+1, body[n:])...)
	}
	return framed
}

// ok is an OK packet, or with another first byte the one that ends rows.
func ok(first byte, status uint16) []byte {
	// 300 rows, which takes three bytes; last id 1<<24, which takes nine.
	body := []byte{first, 0xfc, 44, 1, 0xfe, 0, 0, 0, 1, 0, 0, 0, 0}
	return append(binary.LittleEndian.AppendUint16(body, status), 0, 0)
}

func eof(status uint16) []byte {
	return binary.LittleEndian.AppendUint16([]byte{packetEOF, 0, 0}, status)
}

var (
	definition = []byte("\x03def and so on")
	row        = []byte("\x011\xfb")
	failure    = []byte("\xff\x28\x04#42000no")
)

func TestMySQLAnswersEnd(t *testing.T) {
	t.Parallel()
	const modern, cached = capDeprecateEOF, capDeprecateEOF | capCacheMetadata
	prepared := func(columns, params byte) []byte { return []byte{0, 7, 0, 0, 0, columns, 0, params, 0, 0, 0, 0} }
	for name, c := range map[string]struct {
		answer  answer
		packets [][]byte
	}{
		"ok":                  {&mysqlResults{}, [][]byte{ok(0, 2)}},
		"error":               {&mysqlResults{}, [][]byte{failure}},
		"rows":                {&mysqlResults{}, [][]byte{{2}, definition, definition, eof(2), row, row, eof(2)}},
		"rows, no EOF":        {&mysqlResults{caps: modern}, [][]byte{{2}, definition, definition, row, row, ok(packetEOF, 2)}},
		"no rows":             {&mysqlResults{caps: modern}, [][]byte{{1}, definition, ok(packetEOF, 2)}},
		"error in rows":       {&mysqlResults{}, [][]byte{{1}, definition, eof(2), row, failure}},
		"two results":         {&mysqlResults{}, [][]byte{{1}, definition, eof(2), row, eof(statusMoreResults), ok(0, statusMoreResults), ok(0, 2)}},
		"two results, no EOF": {&mysqlResults{caps: modern}, [][]byte{{1}, definition, row, ok(packetEOF, statusMoreResults), ok(0, 2)}},
		"cached definitions":  {&mysqlResults{caps: cached}, [][]byte{{2, 0}, row, ok(packetEOF, 2)}},
		"sent definitions":    {&mysqlResults{caps: cached}, [][]byte{{2, 1}, definition, definition, row, ok(packetEOF, 2)}},
		"many columns":        {&mysqlResults{caps: modern}, append(append([][]byte{{0xfc, 44, 1}}, slices.Repeat([][]byte{definition}, 300)...), ok(packetEOF, 2))},
		"cursor":              {&mysqlResults{}, [][]byte{{1}, definition, eof(statusCursor)}},
		"fetch":               {&mysqlResults{state: inRows}, [][]byte{row, row, eof(2)}},
		"empty row":           {&mysqlResults{state: inRows}, [][]byte{{}, eof(2)}},
		"long row":            {&mysqlResults{state: inRows}, [][]byte{append([]byte{packetEOF}, make([]byte, splitPacket)...), eof(2)}},
		"prepared":            {&mysqlPrepared{named: func(uint32) {}}, [][]byte{prepared(1, 2), definition, definition, eof(2), definition, eof(2)}},
		"prepared, no EOF":    {&mysqlPrepared{caps: modern, named: func(uint32) {}}, [][]byte{prepared(1, 2), definition, definition, definition}},
		"prepared, plain":     {&mysqlPrepared{named: func(uint32) {}}, [][]byte{prepared(0, 0)}},
		"not prepared":        {&mysqlPrepared{}, [][]byte{failure}},
		"login":               {mysqlLogin{}, [][]byte{ok(0, 2)}},
		"login refused":       {mysqlLogin{}, [][]byte{failure}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, body := range c.packets {
				want := answerMore
				if i == len(c.packets)-1 {
					want = answerDone
				}
				if got := c.answer.see(packet(1, body)); got != want {
					t.Fatalf("packet %d: state %d, want %d", i, got, want)
				}
			}
		})
	}
}

func TestMySQLAnswersPauseForTheClient(t *testing.T) {
	t.Parallel()
	for _, a := range []answer{&mysqlResults{}, mysqlLogin{}} {
		first := []byte{packetInfile, 'f'} // for a login: anything but OK and an error
		if a.see(packet(1, first)) != answerPause || a.see(packet(3, ok(0, 2))) != answerDone {
			t.Errorf("%T", a)
		}
	}
}

func TestMySQLGreetingNamesTheConnection(t *testing.T) {
	t.Parallel()
	var id uint32
	greeting := &mysqlGreeting{backend: func(n uint32) { id = n }}
	if greeting.see(packet(0, []byte("\x0a10.11\x00\x07\x01\x00\x00 and so on"))) != answerDone || id != 263 {
		t.Errorf("connection %d", id)
	}
	if greeting.see(packet(0, failure)) != answerDone || id != 263 {
		t.Errorf("connection %d after an error", id)
	}
}

// commands reads what a MySQL client sends after its login.
func commands(t *testing.T, caps uint32, bodies ...[]byte) (list []Statement, c *mysqlCodec) {
	t.Helper()
	c = newMySQLCodec(func(uint32) {})
	sent := packet(1, append(binary.LittleEndian.AppendUint32(nil, caps|capMySQL), make([]byte, 28)...))
	for _, body := range bodies {
		sent = append(sent, packet(0, body)...)
	}
	c.name(7, "PREPARED")
	in := bufio.NewReader(bytes.NewReader(sent))
	for {
		req, err := c.request(in)
		if errors.Is(err, io.EOF) {
			return list[1:], c
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range req.statements {
			if req.answer == nil && (s.Kind != KindClose && s.Kind != KindQuit && !strings.Contains(s.Text, "PREPARED")) {
				t.Errorf("%v has no answer", s)
			}
		}
		list = append(list, req.statements...)
	}
}

func TestMySQLCommandsAreListed(t *testing.T) {
	t.Parallel()
	seven := []byte{7, 0, 0, 0, 1, 2, 3}
	long := strings.Repeat("x", splitPacket)
	got, _ := commands(t, 0,
		[]byte("\x03SELECT 1"), append([]byte{comQuery}, long...), append([]byte{comStmtExecute}, seven...),
		append([]byte{comStmtExecute}, 0xff, 0xff, 0xff, 0xff), append([]byte{comStmtClose}, seven...),
		append([]byte{comStmtLongData}, seven...), append([]byte{comStmtReset}, seven...), append([]byte{comStmtFetch}, seven...),
		[]byte{comPing}, []byte{comResetConn}, []byte{comChangeUser}, []byte("\x02other"), []byte{comFieldList}, []byte{0x09},
		[]byte{comStmtExecute}, []byte{comQuit})
	want := []Statement{
		{Kind: KindQuery, Text: "SELECT 1"},
		{Kind: KindQuery, Text: long},
		{Kind: KindExecute, Text: "PREPARED"},
		{Kind: KindExecute, Text: "PREPARED"},
		{Kind: KindClose, Text: "PREPARED"},
		{Kind: KindOther, Text: "PREPARED"},
		{Kind: KindOther, Text: "PREPARED"},
		{Kind: KindOther, Text: "PREPARED"},
		{Kind: KindPing},
		{Kind: KindReset},
		{Kind: KindReset},
		{Kind: KindOther, Text: "USE other"},
		{Kind: KindOther, Text: "FIELDS"},
		{Kind: KindOther, Text: "command 0x9"},
		{Kind: KindExecute},
		{Kind: KindQuit},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %.300v", got)
	}
}

func TestMySQLQueryAttributesAreSkipped(t *testing.T) {
	t.Parallel()
	got, _ := commands(t, capQueryAttributes, []byte("\x03\x00\x01SELECT 1"))
	if got[0].Text != "SELECT 1" {
		t.Errorf("%q", got[0].Text)
	}
}

// pgMessage frames a message as PostgreSQL does.
func pgMessage(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

func TestPostgresMessagesAreListed(t *testing.T) {
	t.Parallel()
	c := newPostgresCodec(func(uint32) {})
	c.started = true
	sent := slices.Concat(
		pgMessage('P', "a\x00SELECT 1\x00\x00\x00"), pgMessage('D', "Sa\x00"), pgMessage('S', ""),
		pgMessage('B', "p\x00a\x00\x00\x00"), pgMessage('E', "p\x00\x00\x00\x00\x00"), pgMessage('H', ""),
		pgMessage('C', "Pp\x00"), pgMessage('C', "Sa\x00"), pgMessage('S', ""),
		pgMessage('S', ""), pgMessage('H', ""), pgMessage('F', "12345678"),
		pgMessage('Q', "-- ping\x00"), pgMessage('Q', ";\x00"), pgMessage('Q', "-- why\nSELECT 2;\x00"),
		pgMessage('Q', "COPY t FROM STDIN\x00"), pgMessage('d', "1"), pgMessage('d', "2"), pgMessage('c', ""),
		pgMessage('d', "3"), pgMessage('f', "no\x00"), pgMessage('p', "secret"), pgMessage('!', ""), pgMessage('X', ""),
	)
	in := bufio.NewReader(bytes.NewReader(sent))
	var raw []byte
	var got []Statement
	for {
		req, err := c.request(in)
		if err != nil {
			break
		}
		raw = append(raw, req.raw...)
		got = append(got, req.statements...)
	}
	const copying = "COPY t FROM STDIN"
	want := []Statement{
		{Kind: KindPrepare, Text: "SELECT 1"},
		{Kind: KindExecute, Text: "SELECT 1"},
		{Kind: KindClose, Text: "SELECT 1"},
		{Kind: KindClose, Text: "SELECT 1"},
		{Kind: KindSync},
		{Kind: KindOther, Text: "FunctionCall"},
		{Kind: KindPing, Text: "-- ping"},
		{Kind: KindPing, Text: ";"},
		{Kind: KindQuery, Text: "-- why\nSELECT 2;"},
		{Kind: KindQuery, Text: copying},
		{Kind: KindCopy, Text: copying},
		{Kind: KindCopyEnd, Text: copying},
		{Kind: KindCopy, Text: copying},
		{Kind: KindCopyEnd, Text: copying},
		{Kind: KindOther, Text: "message '!'"},
		{Kind: KindQuit},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if !bytes.Equal(raw, sent) {
		t.Error("what travels is not what was sent")
	}
}

func TestPostgresAnswersEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   answer
		messages string
		want     []answerState
	}{
		"query":         {&postgresAnswer{}, "TDCZ", []answerState{answerMore, answerMore, answerMore, answerDone}},
		"error":         {&postgresAnswer{}, "EZ", []answerState{answerMore, answerDone}},
		"copy in":       {&postgresAnswer{}, "GCZ", []answerState{answerPause, answerMore, answerDone}},
		"flush":         {&postgresAnswer{flushed: true, left: 4}, "1tT2NDC", []answerState{0, 0, 0, 0, 0, 0, answerDone}},
		"flush, error":  {&postgresAnswer{flushed: true, left: 4}, "1E", []answerState{0, answerDone}},
		"flush, missed": {&postgresAnswer{flushed: true, left: 4}, "Z", []answerState{answerOver}},
		"login":         {&postgresLogin{backend: func(uint32) {}}, "RSKZ", []answerState{answerPause, answerMore, answerMore, answerDone}},
		"login refused": {&postgresLogin{}, "RE", []answerState{answerPause, answerDone}},
	} {
		var got []answerState
		for _, kind := range []byte(c.messages) {
			got = append(got, c.answer.see(pgMessage(kind, "")))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestImpossibleMessagesEndTheLink(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"Q\x00\x00\x00\x03x", "Q\xff\xff\xff\xffx", "Q\x00\x00\x00\x09cut"} {
		c := newPostgresCodec(func(uint32) {})
		c.started = true
		if _, err := c.request(bufio.NewReader(strings.NewReader(sent))); err == nil {
			t.Errorf("%q was read", sent)
		}
	}
	c := newPostgresCodec(func(uint32) {})
	if _, err := c.request(bufio.NewReader(strings.NewReader("\x00\x00\x00\x08\x04\xd2\x16\x2e"))); err == nil {
		t.Error("a cancel request without a backend was read")
	}
}

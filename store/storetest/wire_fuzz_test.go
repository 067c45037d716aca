package storetest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzCodecs feeds both directions with what no client or server would send:
// the wire may end such a link, and must not fall over. It starts from what
// real ones sent.
func FuzzCodecs(f *testing.F) {
	files, _ := filepath.Glob("testdata/wire/*.txt")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		sides := map[string][]byte{}
		for line := range strings.Lines(string(content)) {
			mark, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			sent, err := hex.DecodeString(rest)
			if err == nil {
				sides[mark] = append(sides[mark], sent...)
			}
		}
		f.Add(strings.Contains(file, "mysql"), sides[">"], sides["<"])
	}
	f.Fuzz(func(t *testing.T, mysql bool, client, server []byte) {
		// A length that no one could send would only cost memory.
		if len(client)+len(server) > 1<<16 {
			return
		}
		ignore := func(uint32) {}
		var c codec = newPostgresCodec(ignore)
		answers := []answer{}
		if mysql {
			c, answers = newMySQLCodec(ignore), append(answers, &mysqlGreeting{backend: ignore})
		}
		for in := bufio.NewReader(bytes.NewReader(client)); ; {
			req, err := c.request(in)
			if err != nil {
				break
			}
			if req.answer != nil {
				answers = append(answers, req.answer)
			}
		}
		for in := bufio.NewReader(bytes.NewReader(server)); len(answers) > 0; {
			msg, err := c.message(in)
			if err != nil {
				break
			}
			for len(answers) > 0 {
				state := answers[0].see(msg)
				if state == answerDone || state == answerOver {
					answers = answers[1:]
				}
				if state != answerOver {
					break
				}
			}
		}
	})
}

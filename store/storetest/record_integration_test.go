//go:build integration

package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/storetest"
)

var record = flag.Bool("record", false, "record testdata/wire again, from real drivers and servers")

// TestRecord writes the recordings that TestWireReplaysRecordings plays.
func TestRecord(t *testing.T) {
	if !*record {
		return // the recordings are in the repository
	}
	if err := os.MkdirAll(recordings, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) {
			b := newBench(t, d)
			tee := newTee(t, storetest.DSNAddress(t, storetest.Address(t, d.server)))
			b.wire.Retarget(tee.addr)
			b.app.SetMaxOpenConns(1)
			session := map[string]func(*testing.T, *sqlx.DB){"pgx": pgxSession, "postgres": pqSession, "mysql": mysqlSession}[d.sql]
			session(t, b.app)
			_ = b.app.Close()
			tee.ends.Wait()
			tee.write(t, fmt.Sprintf("%s/%s.txt", recordings, d.name), shown(b.wire))
		})
	}
}

func plainSession(t *testing.T, db *sqlx.DB) {
	t.Helper()
	for range 2 {
		tx := db.MustBegin()
		tx.MustExec(tx.Rebind("INSERT INTO accounts VALUES (?, ?)"), 1, "one")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var owners []*string
	if err := db.Select(&owners, db.Rebind("SELECT owner FROM accounts WHERE id < ?"), 7); err != nil || len(owners) != 2 {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO nowhere VALUES (1)"); err == nil {
		t.Fatal("no error")
	}
}

func pgxSession(t *testing.T, db *sqlx.DB) {
	plainSession(t, db)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = conn.Raw(func(c any) error {
		ctx, conn := context.Background(), c.(*stdlib.Conn).Conn()
		batch := &pgx.Batch{}
		batch.Queue("begin")
		batch.Queue(insertSQL, 2, "two")
		batch.Queue(insertSQL, 3, "three")
		batch.Queue("commit")
		if err := conn.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		_, err := conn.CopyFrom(ctx, pgx.Identifier{"accounts"}, []string{"id", "owner"},
			pgx.CopyFromRows([][]any{{int64(4), "four"}, {int64(5), "five"}}))
		return err
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
}

func pqSession(t *testing.T, db *sqlx.DB) {
	plainSession(t, db)
	tx := db.MustBegin()
	stmt, err := tx.Prepare("COPY accounts (id, owner) FROM STDIN")
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	for _, args := range [][]any{{4, "four"}, {5, "five"}, nil} {
		if _, err := stmt.Exec(args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func mysqlSession(t *testing.T, db *sqlx.DB) {
	plainSession(t, db)
	stmt, err := db.Preparex("SELECT id, owner FROM accounts WHERE id < ?")
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	for range 2 {
		var rows []struct {
			ID    int
			Owner *string
		}
		if err := stmt.Select(&rows, 9); err != nil {
			t.Fatal(err)
		}
	}
	db.MustExec("CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2, 3 UNION SELECT 4, 5; END")
	db.MustExec("CALL two()")
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
}

// tee is a proxy that keeps the bytes of its first connection.
type tee struct {
	addr string
	ends sync.WaitGroup

	mu    sync.Mutex
	turns []turn
}

func newTee(t *testing.T, target string) *tee {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &tee{addr: listener.Addr().String()}
	r.ends.Add(2)
	go func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		go r.copy(server, client, true)
		go r.copy(client, server, false)
	}()
	return r
}

func (r *tee) copy(to, from net.Conn, client bool) {
	defer r.ends.Done()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		if last := len(r.turns) - 1; last >= 0 && r.turns[last].client == client {
			r.turns[last].bytes = append(r.turns[last].bytes, buffer[:n]...)
		} else {
			r.turns = append(r.turns, turn{client, bytes.Clone(buffer[:n])})
		}
		r.mu.Unlock()
		_, _ = to.Write(buffer[:n])
	}
}

func (r *tee) write(t *testing.T, file string, lines []string) {
	t.Helper()
	var out strings.Builder
	for _, turn := range r.turns {
		mark := "<"
		if turn.client {
			mark = ">"
		}
		fmt.Fprintf(&out, "%s %x\n", mark, turn.bytes)
	}
	for _, line := range lines {
		fmt.Fprintf(&out, "= %s\n", line)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

//go:build integration

package storetest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestWireFollowsMySQLResults(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		b.app.SetMaxOpenConns(1)
		exec(t, b.app, "CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2, 3 UNION SELECT 4, 5; END")
		exec(t, b.app, "INSERT INTO accounts VALUES (1, ?), (2, NULL), (3, '')", strings.Repeat("x", 200))
		// Binary rows; the second time MariaDB leaves their definitions out.
		stmt, err := b.app.Preparex("SELECT * FROM accounts WHERE id < ? ORDER BY id DESC")
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		for _, most := range []int{0, 9, 9} {
			var rows []struct {
				ID    int
				Owner *string
			}
			if err := stmt.Select(&rows, most); err != nil || len(rows) != min(most, 3) {
				t.Fatalf("%v, %d rows", err, len(rows))
			}
		}
		results, err := b.app.Query("CALL two()")
		if err != nil {
			t.Fatal(err)
		}
		defer results.Close()
		sets := 1
		for results.NextResultSet() {
			sets++
		}
		if err := results.Err(); err != nil || sets != 2 {
			t.Errorf("%v, %d results", err, sets)
		}
		for _, wrong := range []string{"SELECT", "INSERT INTO nowhere VALUES (1)", "SELECT 1 FROM accounts WHERE id = (SELECT id FROM accounts)"} {
			if _, err := b.app.Exec(wrong); err == nil {
				t.Errorf("%s: no error", wrong)
			}
		}
		if err := b.app.Ping(); err != nil || b.wire.Count(storetest.KindPing) != 1 {
			t.Errorf("%v, %d pings", err, b.wire.Count(storetest.KindPing))
		}
		b.allAnswered(t)
	}, driver.mysql)
}

// A row larger than one packet of 16 MiB.
func TestWireFollowsSplitPackets(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		const size = 9 << 20
		var row struct{ Y, Z string }
		if err := b.app.Get(&row, "SELECT REPEAT('y', ?) AS y, REPEAT('z', ?) AS z", size, size); err != nil {
			t.Fatal(err)
		}
		if len(row.Y) != size || len(row.Z) != size {
			t.Errorf("%d and %d bytes", len(row.Y), len(row.Z))
		}
		b.allAnswered(t)
	}, driver.mysql)
}

func TestWireFollowsLoadData(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		file := filepath.Join(t.TempDir(), "accounts")
		if err := os.WriteFile(file, []byte("1\tone\n2\ttwo\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		mysql.RegisterLocalFile(file)
		t.Cleanup(func() { mysql.DeregisterLocalFile(file) })
		exec(t, b.app, "LOAD DATA LOCAL INFILE '"+file+"' INTO TABLE accounts")
		if n := b.rows(t); n != 2 {
			t.Errorf("%d rows", n)
		}
		b.allAnswered(t)
	}, driver.mysql)
}

// Long arguments go out on their own, without an answer.
func TestWireFollowsLongData(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.keepAnswers()
		var n int
		args := []any{strings.Repeat("x", 3<<20), strings.Repeat("y", 3<<20), strings.Repeat("z", 3<<20)}
		dsn := storetest.DSNParam(t, storetest.Address(t, b.server), "maxAllowedPacket", "4194304")
		app := open(t, "mysql", storetest.DSNVia(t, dsn, b.wire.Addr()))
		if err := app.GetContext(context.Background(), &n, "SELECT LENGTH(?) + LENGTH(?) + LENGTH(?)", args...); err != nil || n != 9<<20 {
			t.Errorf("%v: %d", err, n)
		}
		if b.wire.Count(storetest.KindOther) == 0 {
			t.Errorf("statements %v", b.wire.Statements())
		}
		b.allAnswered(t)
	}, driver.mysql, func(d driver) bool { return d.param == "" })
}

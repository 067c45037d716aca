package storetest_test

import (
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestDSNsAreRewritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dsn, address, via, database, param string }{
		{
			"postgres://me:p%40ss@db.example:29432/app?sslmode=disable", "db.example:29432",
			"postgres://me:p%40ss@127.0.0.1:1/app?sslmode=disable",
			"postgres://me:p%40ss@db.example:29432/other?sslmode=disable",
			"postgres://me:p%40ss@db.example:29432/app?k=a%2Fb&sslmode=disable",
		},
		{
			"postgresql://localhost/app", "localhost:5432",
			"postgresql://127.0.0.1:1/app", "postgresql://localhost/other", "postgresql://localhost/app?k=a%2Fb",
		},
		{
			"root@tcp(127.0.0.1:29306)/", "127.0.0.1:29306",
			"root@tcp(127.0.0.1:1)/", "root@tcp(127.0.0.1:29306)/other", "root@tcp(127.0.0.1:29306)/?k=a%2Fb",
		},
		{
			"me:p@s/s(@tcp([::1]:3306)/app?loc=UTC&k=old&parseTime=true", "[::1]:3306",
			"me:p@s/s(@tcp(127.0.0.1:1)/app?loc=UTC&k=old&parseTime=true",
			"me:p@s/s(@tcp([::1]:3306)/other?loc=UTC&k=old&parseTime=true",
			"me:p@s/s(@tcp([::1]:3306)/app?k=a%2Fb&loc=UTC&parseTime=true",
		},
		{"/app", "127.0.0.1:3306", "tcp(127.0.0.1:1)/app", "tcp(127.0.0.1:3306)/other", "tcp(127.0.0.1:3306)/app?k=a%2Fb"},
	} {
		wantEqual(t, c.dsn, []string{
			storetest.DSNAddress(t, c.dsn), storetest.DSNVia(t, c.dsn, "127.0.0.1:1"),
			storetest.DSNDatabase(t, c.dsn, "other"), storetest.DSNParam(t, c.dsn, "k", "a/b"),
		}, []string{c.address, c.via, c.database, c.param})
	}
}

func TestWrongDSNsAreRefusedWithoutTheirPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://secret@/app", "postgres://me:secret\x7f@host/", "secret", "me:secret@unix(/tmp/s)/app"} {
		said := failures(t, func(tb testing.TB) { storetest.DSNAddress(tb, dsn) })
		if said == "" || strings.Contains(said, "secret") {
			t.Errorf("%q: %q", dsn, said)
		}
	}
}

func TestWireToLeadsThroughAWire(t *testing.T) {
	t.Parallel()
	server := newFakePostgres(t)
	wire, dsn := storetest.WireTo(t, "postgres://me@"+server.addr+"/app")
	if dsn != "postgres://me@"+wire.Addr()+"/app" {
		t.Error(dsn)
	}
	must(t, connect(t, storetest.DSNAddress(t, dsn)).query("ONE"))
	server.next(t, "ONE")
}

//go:build integration

package storetest_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// driver is one way to speak to one server.
type driver struct {
	name, sql, server string
	param, value      string
	// seen is what the wire shows of a transaction with one insert with
	// arguments, sent for the second time on its connection.
	seen []string
}

var drivers = []driver{
	{name: "pgx", sql: "pgx", server: "ONCE_TEST_POSTGRES", seen: []string{
		"1 query begin", "2 execute INSERT", "3 query commit",
	}},
	{name: "pgx_exec", sql: "pgx", server: "ONCE_TEST_POSTGRES", param: "default_query_exec_mode", value: "exec", seen: []string{
		"1 query begin", "2 prepare INSERT", "2 execute INSERT", "3 query commit",
	}},
	{name: "pgx_simple", sql: "pgx", server: "ONCE_TEST_POSTGRES", param: "default_query_exec_mode", value: "simple_protocol", seen: []string{
		"1 query begin", "2 query INSERT", "3 query commit",
	}},
	{name: "pgx_pgbouncer", sql: "pgx", server: "ONCE_TEST_PGBOUNCER", param: "default_query_exec_mode", value: "exec", seen: []string{
		"1 query begin", "2 prepare INSERT", "2 execute INSERT", "3 query commit",
	}},
	{name: "pgx_18", sql: "pgx", server: "ONCE_TEST_POSTGRES18", param: "max_protocol_version", value: "3.2", seen: []string{
		"1 query begin", "2 execute INSERT", "3 query commit",
	}},
	{name: "pq", sql: "postgres", server: "ONCE_TEST_POSTGRES", seen: []string{
		"1 query BEGIN", "2 prepare INSERT", "3 execute INSERT", "4 query COMMIT",
	}},
	{name: "mysql", sql: "mysql", server: "ONCE_TEST_MARIADB", seen: []string{
		"1 query START", "2 prepare INSERT", "3 execute INSERT", "0 close INSERT", "4 query COMMIT",
	}},
	{name: "mysql_interpolate", sql: "mysql", server: "ONCE_TEST_MARIADB", param: "interpolateParams", value: "true", seen: []string{
		"1 query START", "2 query INSERT", "3 query COMMIT",
	}},
}

func (d driver) mysql() bool { return d.sql == "mysql" }

// namesBackends is false for pgbouncer, whose numbers are its own.
func (d driver) namesBackends() bool { return d.server != "ONCE_TEST_PGBOUNCER" }

// bench is a table in a schema of the test's own, an application's pool that
// leads to it through a wire, and a pool that does not.
type bench struct {
	driver
	wire   *storetest.Wire
	app    *sqlx.DB
	direct *sqlx.DB
	dsn    string // of direct
}

func newBench(t *testing.T, d driver) *bench {
	t.Helper()
	address := storetest.Address(t, d.server)
	fresh := storetest.FreshSchema
	if d.server == "ONCE_TEST_PGBOUNCER" {
		fresh = storetest.FreshDatabase
	}
	dsn := fresh(t, open(t, d.sql, address), address).DSN
	if d.param != "" {
		dsn = storetest.DSNParam(t, dsn, d.param, d.value)
	}
	b := &bench{driver: d, direct: open(t, d.sql, dsn), dsn: dsn}
	b.wire, dsn = storetest.WireTo(t, dsn)
	if !d.namesBackends() {
		// pgbouncer 1.18 dies of a cancel request whose client hangs up early
		// (pgbouncer issue 801), as pgx does when a context ends.
		b.wire.On(storetest.OfKind(storetest.KindCancel), storetest.Fault{End: storetest.Cut, Times: -1})
	}
	b.app = open(t, d.sql, dsn)
	b.app.SetMaxOpenConns(2)
	exec(t, b.direct, "CREATE TABLE accounts (id BIGINT, owner VARCHAR(200))")
	return b
}

func open(t *testing.T, driver, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db *sqlx.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// insert is a transaction with one insert with arguments.
func (b *bench) insert(ctx context.Context, id int) error {
	tx, err := b.app.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit there is nothing to roll back
	if _, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO accounts VALUES (?, ?)"), id, "owner "+strconv.Itoa(id)); err != nil {
		return err
	}
	return tx.Commit()
}

func (b *bench) rows(t *testing.T) (n int) {
	t.Helper()
	if err := b.direct.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM accounts"); err != nil {
		t.Fatal(err)
	}
	return n
}

// kill ends a backend from outside.
func (b *bench) kill(t *testing.T, s storetest.Statement) {
	t.Helper()
	if b.mysql() {
		exec(t, b.direct, "KILL "+strconv.Itoa(int(s.Backend)))
		return
	}
	var killed bool
	if err := b.direct.GetContext(t.Context(), &killed, "SELECT pg_terminate_backend($1, 5000)", s.Backend); err != nil || !killed {
		t.Errorf("terminate %d: %v %v", s.Backend, killed, err)
	}
}

// alive asks the server whether a backend is still there.
func (b *bench) alive(t *testing.T, backend uint32) bool {
	t.Helper()
	query := "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = " + strconv.Itoa(int(backend))
	if b.mysql() {
		query = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = " + strconv.Itoa(int(backend))
	}
	var n int
	if err := b.direct.GetContext(t.Context(), &n, query); err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// each runs a test on every driver, or on those that all of only choose.
func each(t *testing.T, test func(*testing.T, *bench), only ...func(driver) bool) {
	t.Helper()
	t.Parallel()
	for _, d := range drivers {
		if slices.ContainsFunc(only, func(wanted func(driver) bool) bool { return !wanted(d) }) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, d))
		})
	}
}

// short shows statements by round trip, kind and first word.
func short(statements []storetest.Statement) []string {
	var lines []string
	for _, s := range statements {
		word, _, _ := strings.Cut(s.Text, " ")
		lines = append(lines, strconv.Itoa(s.RoundTrip)+" "+string(s.Kind)+" "+word)
	}
	return lines
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

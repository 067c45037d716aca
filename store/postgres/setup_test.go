//go:build integration

package postgres_test

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// describe lists what migrations make, without the schema's name. The relations
// are chosen first: what other tests drop meanwhile cannot be described.
const describe = `WITH own AS MATERIALIZED (
	SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname LIKE 'once%'
)
SELECT d FROM (
	SELECT format('column %s.%s %s %s %s', o.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull) AS d
	FROM own o JOIN pg_attribute a ON a.attrelid = o.oid WHERE o.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT format('default %s.%s %s', o.relname, f.adnum, pg_get_expr(f.adbin, f.adrelid)) FROM own o JOIN pg_attrdef f ON f.adrelid = o.oid
	UNION ALL SELECT 'index ' || replace(pg_get_indexdef(oid), current_schema(), '') FROM own WHERE relkind = 'i'
	UNION ALL SELECT 'view ' || relname || replace(pg_get_viewdef(oid), current_schema(), '') FROM own WHERE relkind = 'v'
) x ORDER BY d`

func readOnly(t testing.TB, dsn string) string {
	t.Helper()
	return storetest.DSNParam(t, dsn, "default_transaction_read_only", "on")
}

// role makes a role that sees the schema of dsn and may do nothing in it.
func role(t testing.TB, dsn string) (name, roleDSN string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("not a URL")
	}
	schema := u.Query().Get("search_path")
	name = strings.Replace(schema, "t_", "r_", 1)
	script(t, dsn, "CREATE ROLE "+name+" LOGIN; GRANT USAGE ON SCHEMA "+schema+" TO "+name)
	t.Cleanup(func() { script(t, dsn, "DROP OWNED BY "+name+"; DROP ROLE "+name) })
	u.User = url.User(name)
	return name, u.String()
}

func script(t testing.TB, dsn, text string) {
	t.Helper()
	db := adminPool(t, "pgx", dsn)
	// Without arguments pgx sends a text as it is, with all its statements.
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// databases are databases of pgbouncer's own, which takes no search_path: a
// test has one to itself and leaves it empty. To make one for each test would
// take most of the time.
type databases struct {
	admin   *sqlx.DB
	address string
	mu      sync.Mutex
	free    []string
}

// take returns the DSN of an empty database.
func (d *databases) take(parent, t testing.TB) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.free) == 0 {
		d.free = []string{storetest.FreshDatabase(parent, d.admin, d.address).DSN}
	}
	dsn := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	t.Cleanup(func() {
		script(t, dsn, "SET lock_timeout = '15s'; DROP SCHEMA public CASCADE; CREATE SCHEMA public; RESET lock_timeout")
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free = append(d.free, dsn)
	})
	return dsn
}

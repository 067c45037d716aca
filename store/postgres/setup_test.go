//go:build integration

package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// describe lists what migrations make, without the schema's name.
const describe = `SELECT d FROM (
	SELECT format('column %s.%s %s %s %s %s', table_name, column_name, ordinal_position, data_type, is_nullable, column_default) AS d
	FROM information_schema.columns WHERE table_schema = current_schema()
	UNION ALL SELECT 'index ' || replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema()
	UNION ALL SELECT 'view ' || viewname || replace(definition, current_schema(), '') FROM pg_views WHERE schemaname = current_schema()
) x WHERE d NOT LIKE '%effects%' ORDER BY d`

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

//go:build integration

package storetest_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestFreshSchemasAreApartAndDropped(t *testing.T) {
	t.Parallel()
	for driver, server := range map[string]string{"pgx": "ONCE_TEST_POSTGRES", "postgres": "ONCE_TEST_POSTGRES", "mysql": "ONCE_TEST_MARIADB"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			address := storetest.Address(t, server)
			admin := open(t, driver, address)
			var names []string
			said := failures(t, func(tb testing.TB) {
				for range 2 {
					schema := storetest.FreshSchema(tb, admin, address)
					exec(t, open(t, driver, schema.DSN), "CREATE TABLE mine (n INT)")
					exec(t, admin, "INSERT INTO "+schema.Name+".mine VALUES (1)")
					names = append(names, schema.Name)
				}
			})
			if said != "" || names[0] == names[1] || len(names[0]) > 63 {
				t.Errorf("%q %v", said, names)
			}
			var left int
			if err := admin.Get(&left, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('"+
				strings.Join(names, "', '")+"')"); err != nil || left != 0 {
				t.Errorf("%v, %d are left", err, left)
			}
		})
	}
}

func TestFreshDatabasesEndTheirConnections(t *testing.T) {
	t.Parallel()
	address := storetest.Address(t, "ONCE_TEST_POSTGRES")
	admin := open(t, "pgx", address)
	said := failures(t, func(tb testing.TB) {
		conn, err := open(t, "pgx", storetest.FreshDatabase(tb, admin, address).DSN).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		run(t, conn, "BEGIN")
		run(t, conn, "CREATE TABLE held (n INT)")
	})
	if said != "" {
		t.Error(said)
	}
}

// What a library could leave behind on a connection, on each driver.
func TestPoolIdleFindsDamage(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for name, damage := range map[string]func(*testing.T, *sql.Conn){
			"begin": func(t *testing.T, conn *sql.Conn) { run(t, conn, "BEGIN") },
			"begin and write": func(t *testing.T, conn *sql.Conn) {
				run(t, conn, "BEGIN")
				run(t, conn, "INSERT INTO accounts VALUES (1, 'one')")
			},
			"failed": func(t *testing.T, conn *sql.Conn) {
				run(t, conn, "BEGIN")
				_, _ = conn.ExecContext(t.Context(), "SELECT * FROM nowhere")
			},
			"autocommit": func(t *testing.T, conn *sql.Conn) {
				if b.mysql() {
					run(t, conn, "SET autocommit = 0")
				} else {
					run(t, conn, "BEGIN ISOLATION LEVEL SERIALIZABLE")
				}
			},
		} {
			for _, conns := range []int{1, 3} {
				app := open(t, b.sql, b.dsn)
				app.SetMaxOpenConns(conns)
				app.SetMaxIdleConns(conns)
				conn, err := app.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				damage(t, conn)
				_ = conn.Close()
				said := failures(t, func(tb testing.TB) { storetest.PoolIdle(tb, app.DB) })
				// pgx looks at a connection before its next use, and discards
				// one that is in a transaction.
				discards := b.sql == "pgx"
				if discards && said != "" || !discards && !strings.Contains(said, "not as it was") {
					t.Errorf("%s, %d connections: %q", name, conns, said)
				}
				_ = app.Close()
			}
		}
	}, driver.namesBackends)
}

func run(t *testing.T, conn *sql.Conn, statement string) {
	t.Helper()
	if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

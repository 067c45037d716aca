//go:build integration

package postgres_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// C01: with synchronous standbys, a commit whose wait was cut off is visible
// before it is safe. Nothing but our own bound on the commit is needed for it.
// The redelivery is a duplicate, and must not be acknowledged before the
// standby has what it is a duplicate of.
func TestC01_ADuplicateWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	server := storetest.NewServer(t, "postgres")
	initdb := storetest.Tool(t, "initdb", "/usr/lib/postgresql/*/bin/initdb")
	data := filepath.Join(server.Dir, "data")
	server.Prepare(initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
	server.Start(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-p", server.Port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	dsn := "postgres://postgres@127.0.0.1:" + server.Port + "/postgres?sslmode=disable"

	// What sets up does not wait for the standby that is not there.
	var admin *store.SQL
	storetest.Eventually(t, 0, "the server takes connections", func() error {
		var err error
		if admin, err = postgres.Open(dsn + "&synchronous_commit=local"); err != nil {
			return err
		}
		if err = admin.Migrate(t.Context()); err != nil {
			_ = admin.Close()
		}
		return err
	})
	defer admin.Close()
	admin.DB().MustExec("CREATE TABLE effects (n int)")
	admin.DB().MustExec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	admin.DB().MustExec("SELECT pg_reload_conf()")
	storetest.Eventually(t, 0, "the server expects a standby", func() error {
		var names string
		if err := admin.DB().Get(&names, "SHOW synchronous_standby_names"); err != nil || names == "nobody" {
			return err
		}
		return errors.New("not yet")
	})

	s, err := postgres.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	attempt := func() (store.Result, error) {
		return s.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "key", Bounds: store.Bounds{Commit: time.Second}},
			func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
				return nil, err
			})
	}
	if _, err := attempt(); err == nil || store.ClassOf(err) != store.ClassTransient {
		t.Fatalf("the commit waits for nobody: %v", err)
	}
	storetest.Eventually(t, 0, "the commit is visible although it is not safe", func() error {
		var n int
		return admin.DB().Get(&n, "SELECT n FROM effects")
	})
	if r, err := attempt(); err == nil {
		t.Errorf("a duplicate of what the standby has not got is acknowledged: %+v", r)
	} else if store.ClassOf(err) != store.ClassTransient {
		t.Errorf("waiting for the standby is %s's fault: %v", store.ClassOf(err), err)
	}
	admin.DB().MustExec("ALTER SYSTEM SET synchronous_standby_names = ''")
	admin.DB().MustExec("SELECT pg_reload_conf()")
	storetest.Eventually(t, 0, "the duplicate is acknowledged when nobody has to be waited for", func() error {
		r, err := attempt()
		if err == nil && !r.Duplicate {
			t.Error("the handler ran twice")
		}
		return err
	})
}

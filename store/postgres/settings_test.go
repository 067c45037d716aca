//go:build integration

package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/postgres"
	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestDurabilityThatIsGivenUpIsFound(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES")
	for value, found := range map[string]bool{"on": false, "local": false, "off": true} {
		h := s
		h.Fresh = func(t testing.TB) string {
			t.Helper()
			return storetest.DSNParam(t, s.Fresh(t), "synchronous_commit", value)
		}
		st := h.Make().Open(t, 1)
		if err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		findings, err := st.Verify(t.Context())
		if err != nil || (len(findings) == 1) != found {
			t.Errorf("%s: %+v, %v", value, findings, err)
		}
		for _, f := range findings {
			if f.Setting != "synchronous_commit" || f.Value != value || f.Problem == "" || f.Fix == "" {
				t.Errorf("%+v", f)
			}
		}
	}
}

// Where the application bounds every lock, a lock on the table shows as 55P03,
// which is also how a copy in flight shows.
func TestC07_TheApplicationsLockTimeoutIsNotACopyInFlight(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]storetest.Setup{"pgx": pgxSetup(t, "ONCE_TEST_POSTGRES"), "pq": pqSetup(t)} {
		fresh := s.Fresh
		s.Fresh = func(t testing.TB) string {
			t.Helper()
			return storetest.DSNParam(t, fresh(t), "lock_timeout", "300ms")
		}
		h := s.Make()
		st := h.Open(t, 2)
		if err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		migration, err := h.Again(t, st, 1).DB().BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := migration.Exec("LOCK TABLE once_claims IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		c := store.Claim{Consumer: "a/b", Key: "k", Wait: 2 * time.Second}
		_, err = st.Do(t.Context(), c, nothing)
		if !errors.Is(err, store.ErrTableLocked) || errors.Is(err, store.ErrInFlight) || store.ClassOf(err) != store.ClassTransient {
			t.Errorf("%s: %v", name, err)
		}
		if err := migration.Rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Do(t.Context(), c, nothing); err != nil {
			t.Errorf("%s: after the migration: %v", name, err)
		}
	}
}

func nothing(context.Context, *sqlx.Tx) ([]store.Output, error) { return nil, nil }

// A wrong password, on a server that asks for one: the error says whom, and
// never the password.
func TestAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	server := storetest.NewServer(t, "postgres")
	initdb := storetest.Tool(t, "initdb", "/usr/lib/postgresql/*/bin/initdb")
	data, password := filepath.Join(server.Dir, "data"), filepath.Join(server.Dir, "password")
	if err := os.WriteFile(password, []byte("right\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server.Prepare(initdb, "-D", data, "-U", "app", "-A", "scram-sha-256", "--pwfile="+password, "--no-sync")
	server.Start(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-p", server.Port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	const secret = "hunter2-is-secret"
	dsn := func(password string) string {
		return "postgres://app:" + password + "@127.0.0.1:" + server.Port + "/postgres?sslmode=disable"
	}
	storetest.Eventually(t, 0, "the server lets in whoever knows the password", func() error {
		return adminPool(t, "pgx", dsn("right")).Ping()
	})
	errs := map[string]error{}
	for name, st := range map[string]*store.SQL{
		"pgx": postgres.New(adminPool(t, "pgx", dsn(secret)), quiet), "pq": postgres.New(adminPool(t, "postgres", dsn(secret)), quiet),
	} {
		_, errs[name+" Do"] = st.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "k"}, nothing)
		_, errs[name+" Verify"] = st.Verify(t.Context())
		errs[name+" Migrate"] = st.Migrate(t.Context())
		errs[name+" Ping"] = st.Ping(t.Context())
	}
	for what, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "app") {
			t.Errorf("%s: %v does not name the user", what, err)
		}
	}
	for _, bad := range []string{
		"postgres://app:" + secret + "@127.0.0.1:1/postgres?sslmode=disable",
		"postgres://app:" + secret + "@127.0.0.1:notaport/postgres",
		"postgres://app:" + secret + "@127.0.0.1/postgres?sslmode=maybe",
		"postgres://app:" + secret + "%zz@127.0.0.1/postgres",
		"postgres://app:" + secret + "@[::1/postgres",
		"host=127.0.0.1 port=1 user=app password=" + secret + " sslmode=disable",
		"host=127.0.0.1 user=app password=" + secret + " sslmode=maybe",
		"host=127.0.0.1 user=app password='" + secret,
		"host=127.0.0.1 password=" + secret + " nonsense",
		"postgres://app:" + url.QueryEscape(secret+" $%") + "@nowhere.invalid/postgres",
	} {
		st, err := postgres.Open(bad, quiet)
		if err == nil {
			err = st.Ping(t.Context())
			_ = st.Close()
		}
		if err == nil {
			t.Errorf("%q is no error", strings.Replace(bad, secret, "…", 1))
			continue
		}
		errs["Open "+strings.Replace(bad, secret, "…", 1)] = err
	}
	for what, err := range errs {
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is shown: %v", what, err)
		}
	}
}

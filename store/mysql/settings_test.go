//go:build integration

package mysql_test

import (
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// The columns pin their own type, so it does not matter what the database, the
// server and the session would have made of them.
func TestB19_B20_B21_B22_KeysInAnyDatabase(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]string{
		"latin1":          "CHARACTER SET latin1 COLLATE latin1_swedish_ci",
		"utf8mb3":         "CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
		"utf8mb4 general": "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
		"utf8mb4 bin":     "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		"ascii":           "CHARACTER SET ascii",
		"no sql_mode":     "CHARACTER SET latin1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			if name == "no sql_mode" {
				s = setup(t, "sql_mode", "''")
			}
			fresh := s.Fresh
			s.Fresh = func(t testing.TB) string {
				t.Helper()
				dsn := fresh(t)
				script(t, dsn, "ALTER DATABASE "+create)
				return dsn
			}
			storetest.Run(t, s.Make(), "keys")
		})
	}
}

// A server that speaks another language.
func TestB08_GermanServer(t *testing.T) {
	t.Parallel()
	s := setup(t, "lc_messages", "'de_DE'")
	dsn := s.Fresh(t)
	if _, err := adminPool(t, dsn).Exec("SELECT * FROM nowhere"); err == nil || strings.Contains(err.Error(), "doesn't exist") {
		t.Fatalf("the server speaks English: %v", err)
	}
	s.Harness.Variant = true
	storetest.Run(t, s.Make(), "portable", "outcomes", "racers")
}

// A user whose password is wrong: the error says whom, and never the password.
func TestAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dsn := s.Fresh(t)
	name, _ := role(t, dsn)
	script(t, dsn, "SET PASSWORD FOR "+name+" = PASSWORD('right')")
	user := strings.Trim(strings.Split(name, "@")[0], "'")
	const secret = "hunter2-is-secret"
	login := func(rest string) string { return user + ":" + secret + "@" + rest }
	address := strings.TrimPrefix(dsn, "root@")

	st, err := mysql.Open(login(address), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	_, doErr := st.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "k"}, nil)
	_, verifyErr := st.Verify(t.Context())
	errs := map[string]error{
		"Do": doErr, "Verify": verifyErr, "Migrate": st.Migrate(t.Context()), "Ping": st.Ping(t.Context()),
	}
	for what, err := range errs {
		if err == nil || !strings.Contains(err.Error(), user) {
			t.Errorf("%s: %v does not name the user", what, err)
		}
	}
	for _, bad := range []string{
		login("tcp(127.0.0.1:1)/app?no=where&timeout=x"), login("tcp(127.0.0.1:1"), login("tcp(127.0.0.1:1)"),
		login("carrier-pigeon(127.0.0.1:1)/app"), login("/"), user + ":" + secret,
	} {
		st, err := mysql.Open(bad, quiet)
		if err == nil {
			err = st.Ping(t.Context())
			_ = st.Close()
		}
		if err == nil {
			t.Errorf("%q is no error", strings.Replace(bad, secret, "…", 1))
			continue
		}
		errs[bad] = err
	}
	for what, err := range errs {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the password is shown: %v", what, err)
		}
	}
}

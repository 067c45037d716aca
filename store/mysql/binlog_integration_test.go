//go:build integration

package mysql_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/mysql"
	"github.com/watermill-once/watermill-once/store/storetest"
)

// C23: binlog_format=STATEMENT forbids writes at READ COMMITTED, our default.
// Found at start, with both ways out; at run time nobody's fault but the
// configuration's, so never the message's.
func TestC23_BinlogFormatStatement(t *testing.T) {
	t.Parallel()
	server := storetest.NewServer(t, "mysql")
	data := filepath.Join(server.Dir, "data")
	server.Prepare(storetest.Tool(t, "mariadb-install-db"), "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db")
	server.Start(storetest.Tool(t, "mariadbd", "/usr/sbin/mariadbd"), "--no-defaults", "--datadir="+data, "--bind-address=127.0.0.1",
		"--port="+server.Port, "--socket="+filepath.Join(server.Dir, "s"), "--pid-file="+filepath.Join(server.Dir, "pid"),
		"--log-bin=binlog", "--binlog-format=STATEMENT", "--innodb-buffer-pool-size=32M")
	admin := sqlx.MustOpen("mysql", "root@tcp(127.0.0.1:"+server.Port+")/")
	defer admin.Close()
	storetest.Eventually(t, 0, "the server takes connections", func() error {
		_, err := admin.Exec("CREATE DATABASE IF NOT EXISTS app")
		return err
	})
	dsn := "root@tcp(127.0.0.1:" + server.Port + ")/app"
	effect := func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
		return nil, err
	}

	strict, err := mysql.Open(dsn, store.WithIsolation(sql.LevelRepeatableRead))
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	if err := strict.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	strict.DB().MustExec("CREATE TABLE effects (n INT)")

	s, err := mysql.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Verify(t.Context())
	if err == nil || !strings.Contains(err.Error(), "binlog_format=ROW") || !strings.Contains(err.Error(), "LevelRepeatableRead") {
		t.Errorf("Verify names no way out: %v", err)
	}
	claim := store.Claim{Consumer: "a/b", Key: "key"}
	if _, err := s.Do(t.Context(), claim, effect); err == nil || store.ClassOf(err) != store.ClassTransient {
		t.Errorf("at READ COMMITTED: %v", err)
	}

	// A server that was set so after the start.
	admin.MustExec("SET GLOBAL binlog_format = ROW")
	late, err := mysql.Open(dsn + "?binlog_format=STATEMENT")
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := late.Do(t.Context(), claim, effect); err == nil || store.ClassOf(err) != store.ClassTransient {
		t.Errorf("set so later: %v", err)
	}

	// Both ways out. A session keeps the format that it began with.
	s.DB().SetMaxIdleConns(-1)
	if _, err := s.Do(t.Context(), claim, effect); err != nil {
		t.Errorf("with binlog_format=ROW: %v", err)
	}
	admin.MustExec("SET GLOBAL binlog_format = STATEMENT")
	claim.Key = "other"
	if _, err := strict.Do(t.Context(), claim, effect); err != nil {
		t.Errorf("at REPEATABLE READ: %v", err)
	}
}

//go:build integration

package mysql_test

import (
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/XSAM/otelsql"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// An instrumented pool, whose driver connection is not go-sql-driver's own.
func TestOtelsql(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.OpenDB = func(c driver.Connector) *sql.DB { return otelsql.OpenDB(c) }
	storetest.Run(t, s.Make(), "doom", "session", "swallow", "arguments", "end", "cancel", "limits", "lost")
}

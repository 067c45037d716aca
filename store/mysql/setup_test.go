//go:build integration

package mysql_test

import (
	"strconv"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// describe lists what migrations make, without the database's name.
const describe = `SELECT d FROM (
	SELECT CONCAT_WS(' ', 'column', table_name, column_name, ordinal_position, column_type, is_nullable, COALESCE(column_default, '-'), extra, COALESCE(collation_name, '-')) AS d
	FROM information_schema.columns WHERE table_schema = DATABASE()
	UNION ALL SELECT CONCAT_WS(' ', 'index', table_name, index_name, seq_in_index, column_name, non_unique)
	FROM information_schema.statistics WHERE table_schema = DATABASE()
	UNION ALL SELECT CONCAT('view ', table_name, ' ', REPLACE(view_definition, DATABASE(), ''))
	FROM information_schema.views WHERE table_schema = DATABASE()
) x WHERE d NOT LIKE '%effects%' ORDER BY d`

// fault is the server's error with a number and the SQLSTATE that it has.
func fault(code string) error {
	number, _ := strconv.Atoi(code)
	states := map[int]string{1062: "23000", 1213: "40001", 1205: "HY000", 1020: "HY000", 1105: "HY000"}
	e := &mysqldriver.MySQLError{Number: uint16(number), Message: "何か他の言語で"}
	copy(e.SQLState[:], states[number])
	return e
}

func readOnly(t testing.TB, dsn string) string {
	t.Helper()
	return storetest.DSNParam(t, dsn, "tx_read_only", "1")
}

// role makes a user that may connect to the server and do nothing there.
func role(t testing.TB, dsn string) (name, roleDSN string) {
	t.Helper()
	config, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	user := "r" + config.DBName[max(1, len(config.DBName)-20):]
	name = "'" + user + "'@'%'"
	script(t, dsn, "CREATE USER "+name)
	t.Cleanup(func() { script(t, dsn, "DROP USER "+name) })
	return name, strings.Replace(dsn, "root@", user+"@", 1)
}

func script(t testing.TB, dsn, text string) {
	t.Helper()
	if _, err := adminPool(t, storetest.DSNParam(t, dsn, "multiStatements", "true")).Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

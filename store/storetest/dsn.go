package storetest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// The DSN helpers take both forms that this module's tests use: a PostgreSQL
// URL (pgx, lib/pq) and go-sql-driver's "user:password@tcp(host:port)/name?…".
// They work on the text, so that this package needs no driver.

// ProtocolOf tells which server a DSN is for.
func ProtocolOf(dsn string) Protocol {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return PostgresWire
	}
	return MySQLWire
}

// DSNAddress returns the "host:port" of a DSN.
func DSNAddress(t testing.TB, dsn string) string {
	t.Helper()
	if ProtocolOf(dsn) == MySQLWire {
		return splitMySQL(t, dsn).address
	}
	u := parsePostgres(t, dsn)
	if u.Port() == "" {
		return u.Host + ":5432"
	}
	return u.Host
}

// DSNVia returns dsn with another "host:port", such as a wire's.
func DSNVia(t testing.TB, dsn, address string) string {
	t.Helper()
	if ProtocolOf(dsn) == MySQLWire {
		parts := splitMySQL(t, dsn)
		parts.address = address
		return parts.String()
	}
	u := parsePostgres(t, dsn)
	u.Host = address
	return u.String()
}

// DSNDatabase returns dsn with another database.
func DSNDatabase(t testing.TB, dsn, name string) string {
	t.Helper()
	if ProtocolOf(dsn) == MySQLWire {
		parts := splitMySQL(t, dsn)
		parts.database = url.PathEscape(name)
		return parts.String()
	}
	u := parsePostgres(t, dsn)
	u.Path = "/" + name
	return u.String()
}

// DSNParam returns dsn with a parameter set, such as "interpolateParams" or
// "default_query_exec_mode".
func DSNParam(t testing.TB, dsn, key, value string) string {
	t.Helper()
	if ProtocolOf(dsn) == MySQLWire {
		parts := splitMySQL(t, dsn)
		kept := strings.FieldsFunc(parts.params, func(r rune) bool { return r == '&' })
		params := []string{key + "=" + url.QueryEscape(value)}
		for _, param := range kept {
			if !strings.HasPrefix(param, key+"=") {
				params = append(params, param)
			}
		}
		parts.params = strings.Join(params, "&")
		return parts.String()
	}
	u := parsePostgres(t, dsn)
	query := u.Query()
	query.Set(key, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// WireTo starts a [Wire] to the server that dsn names, and returns it with the
// DSN that leads through it.
func WireTo(t testing.TB, dsn string) (*Wire, string) {
	t.Helper()
	wire := NewWire(t, ProtocolOf(dsn), DSNAddress(t, dsn))
	return wire, DSNVia(t, dsn, wire.Addr())
}

// parsePostgres reads a URL. A failure does not show it, for the password.
func parsePostgres(t testing.TB, dsn string) *url.URL {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Fatal("storetest: not a PostgreSQL URL with a host")
	}
	return u
}

// mysqlDSN holds the parts of go-sql-driver's DSN as they are written.
type mysqlDSN struct{ login, network, address, database, params string }

// splitMySQL takes a DSN apart as the driver does: the name begins behind the
// last slash, the network behind the last @ before it.
func splitMySQL(t testing.TB, dsn string) mysqlDSN {
	t.Helper()
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		t.Fatal("storetest: not a MySQL DSN: it has no slash before the database")
	}
	var parts mysqlDSN
	server := dsn[:slash]
	parts.database, parts.params, _ = strings.Cut(dsn[slash+1:], "?")
	if at := strings.LastIndexByte(server, '@'); at >= 0 {
		parts.login, server = server[:at+1], server[at+1:]
	}
	parts.network, parts.address, _ = strings.Cut(strings.TrimSuffix(server, ")"), "(")
	if parts.network == "" {
		parts.network = "tcp"
	}
	if parts.network != "tcp" {
		t.Fatalf("storetest: a MySQL DSN over %q: only tcp can be led through a wire", parts.network)
	}
	if parts.address == "" {
		parts.address = "127.0.0.1:3306"
	}
	return parts
}

// String puts the DSN together again.
func (d mysqlDSN) String() string {
	dsn := fmt.Sprintf("%s%s(%s)/%s", d.login, d.network, d.address, d.database)
	if d.params != "" {
		dsn += "?" + d.params
	}
	return dsn
}

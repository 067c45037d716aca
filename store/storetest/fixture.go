package storetest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Address returns the address of a real server from an environment variable
// such as ONCE_TEST_POSTGRES. A missing one fails the test and never skips it:
// a suite that is green because nothing ran proves nothing.
func Address(t testing.TB, variable string) string {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Fatalf("%s is not set: this test needs a real server. Start the servers with `make services`, "+
			"then export their addresses with `eval \"$(.ci/services/services env)\"`", variable)
	}
	return address
}

// Owned reports whether a server was started by `make services`, going by the
// names in ONCE_TEST_OWNED ("postgres,mariadb"). Only such a server may be
// killed or restarted.
func Owned(name string) bool {
	names := strings.FieldsFunc(os.Getenv("ONCE_TEST_OWNED"), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.ContainsFunc(names, func(owned string) bool { return strings.EqualFold(owned, name) })
}

// RequireOwned fails a test that is about to kill or restart a server that is
// not [Owned].
func RequireOwned(t testing.TB, name string) {
	t.Helper()
	if !Owned(name) {
		t.Fatalf("the server %q was not started by `make services` (ONCE_TEST_OWNED=%q): "+
			"this test kills or restarts it and refuses to", name, os.Getenv("ONCE_TEST_OWNED"))
	}
}

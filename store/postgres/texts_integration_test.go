//go:build integration

package postgres_test

import (
	"testing"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// The simple protocol takes many statements in one text.
func TestPgxSimpleProtocol(t *testing.T) {
	t.Parallel()
	s := pgxSetup(t, "ONCE_TEST_POSTGRES")
	fresh := s.Fresh
	s.Fresh = func(t testing.TB) string {
		t.Helper()
		return storetest.DSNParam(t, fresh(t), "default_query_exec_mode", "simple_protocol")
	}
	storetest.Run(t, s.Make(), "texts", "swallow", "arguments", "lost", "outputs")
}

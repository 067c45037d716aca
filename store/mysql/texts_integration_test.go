//go:build integration

package mysql_test

import (
	"testing"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// A pool that takes many statements in one text.
func TestMultiStatements(t *testing.T) {
	t.Parallel()
	storetest.Run(t, setup(t, "multiStatements", "true", "interpolateParams", "true").Make(), "texts", "swallow", "end")
}

package guarded_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A panic or Goexit inside the driver leaves a lock of database/sql held for ever, and with
// it the goroutine that cleans up behind the transaction.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(
		"github.com/watermill-once/watermill-once/store/internal/guarded.(*Conn).letGo.func1"))
}

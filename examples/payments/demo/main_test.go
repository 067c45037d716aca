package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes this test binary the demo itself, so that tests run the real
// program, its processes and all, without building it again. Its consumers
// inherit it.
const asProgram = "ONCE_DEMO_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

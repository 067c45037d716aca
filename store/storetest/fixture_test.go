package storetest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store/storetest"
)

func TestAddressFailsAndNeverSkips(t *testing.T) {
	t.Setenv("ONCE_TEST_NOTHING", "")
	said := failures(t, func(tb testing.TB) { storetest.Address(tb, "ONCE_TEST_NOTHING") })
	for _, part := range []string{"ONCE_TEST_NOTHING", "make services", `eval "$(.ci/services/services env)"`} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not say %q", said, part)
		}
	}
	t.Setenv("ONCE_TEST_NOTHING", "somewhere")
	if got := storetest.Address(t, "ONCE_TEST_NOTHING"); got != "somewhere" {
		t.Errorf("%q", got)
	}
}

func TestOwnedGoesByTheVariable(t *testing.T) {
	t.Setenv("ONCE_TEST_OWNED", "kafka,postgres, MariaDB")
	for name, want := range map[string]bool{"postgres": true, "mariadb": true, "kafka": true, "postgres18": false, "": false} {
		if got := storetest.Owned(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	storetest.RequireOwned(t, "postgres")
	said := failures(t, func(tb testing.TB) { storetest.RequireOwned(tb, "postgres18") })
	if !strings.Contains(said, "postgres18") || !strings.Contains(said, "make services") {
		t.Errorf("%q", said)
	}
}

func TestEventuallyTellsTheLastError(t *testing.T) {
	t.Parallel()
	tries := 0
	storetest.Eventually(t, 0, "three tries", func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	said := failures(t, func(tb testing.TB) {
		storetest.Eventually(tb, 5*time.Millisecond, "the moon", func() error { return errors.New("it is day") })
	})
	if tries != 3 || said != "not within 5ms: the moon: it is day" {
		t.Errorf("%d tries, %q", tries, said)
	}
}

func TestLeaksCountsGoroutines(t *testing.T) { // not parallel: it counts those of the process
	if said := failures(t, func(tb testing.TB) { storetest.Leaks(tb) }); said != "" {
		t.Error(said)
	}
	release := make(chan struct{})
	said := failures(t, func(tb testing.TB) {
		storetest.LeaksWithin(tb, 5*time.Millisecond)
		go func() { <-release }()
	})
	close(release)
	if !strings.Contains(said, "TestLeaksCountsGoroutines") {
		t.Errorf("%q", said)
	}
}

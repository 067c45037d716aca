package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// pool opens an application's own pool and makes a migrated store over it, with
// a table of effects.
func pool(t *testing.T, dsn string, size int, opts ...store.Option) *store.SQL {
	t.Helper()
	db := sqlx.MustOpen("sqlite", dsn)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(size)
	s := sqlite.New(db, append([]store.Option{quiet}, opts...)...)
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS effects (name TEXT)"); err != nil {
		t.Fatal(err)
	}
	return s
}

func effect(name string) store.Func {
	return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		// Reads first: in a transaction that was not the writer from the start
		// the INSERT could never succeed.
		var n int
		if err := tx.GetContext(ctx, &n, "SELECT COUNT(*) FROM effects"); err != nil {
			return nil, err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
		return nil, err
	}
}

func count(t *testing.T, s *store.SQL, table string) (n int) {
	t.Helper()
	if err := s.DB().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM "+table); err != nil {
		t.Fatal(err)
	}
	return n
}

// Two consumers on one file, each with a pool of its own as two processes
// would have, over every kind of application's DSN: contention ends in waiting
// and not in errors.
func TestB42_W22_NobodySeesABusyFile(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]string{
		"as Open makes it": "",
		"deferred":         "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)",
		"immediate":        "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate",
		"no busy timeout":  "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)",
		"no WAL":           "?_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)",
	} {
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s direct %v", name, direct), func(t *testing.T) {
				t.Parallel()
				dsn := filepath.Join(t.TempDir(), "app.db") + params
				if params == "" {
					dsn, _ = sqlite.DSN(dsn)
				}
				var opts []store.Option
				if direct {
					opts = append(opts, store.Direct())
				}
				stores := []*store.SQL{pool(t, dsn, 4, opts...), pool(t, dsn, 4, opts...)}
				const workers, each = 8, 15
				var all sync.WaitGroup
				for w := range workers {
					all.Go(func() {
						for i := range each {
							name := fmt.Sprintf("%d-%d", w, i)
							r, err := stores[w%2].Do(t.Context(), store.Claim{Consumer: "a/b", Key: name, Wait: 30 * time.Second}, effect(name))
							if err != nil || r.Duplicate {
								t.Errorf("%s: %+v, %v", name, r, err)
							}
						}
					})
				}
				all.Wait()
				if n, claims := count(t, stores[0], "effects"), count(t, stores[0], "once_claims"); n != workers*each || claims != workers*each {
					t.Errorf("%d effects and %d claims of %d messages", n, claims, workers*each)
				}
			})
		}
	}
}

func TestMemoryWithManyConnectionsIsRefused(t *testing.T) {
	t.Parallel()
	db := sqlx.MustOpen("sqlite", ":memory:")
	defer db.Close()
	s := sqlite.New(db, quiet)
	defer s.Close()
	if _, err := s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "SetMaxOpenConns(1)") {
		t.Errorf("Verify of many connections: %v", err)
	}
	if _, err := s.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "k"}, effect("k")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Do: %v", err)
	}

	one := pool(t, ":memory:", 1)
	if findings, err := one.Verify(t.Context()); err != nil || len(findings) > 0 {
		t.Errorf("Verify of one connection: %v, %v", findings, err)
	}
	for _, duplicate := range []bool{false, true} {
		if r, err := one.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "k"}, effect("k")); err != nil || r.Duplicate != duplicate {
			t.Errorf("%+v, %v", r, err)
		}
	}
	// One that all connections share is fine.
	shared := pool(t, "file:"+strings.ReplaceAll(t.Name(), "/", "_")+"?mode=memory&cache=shared", 1)
	if _, err := shared.Verify(t.Context()); err != nil {
		t.Errorf("Verify of a shared one: %v", err)
	}
}

func TestDurabilityThatIsGivenUpIsFound(t *testing.T) {
	t.Parallel()
	for params, found := range map[string]bool{
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)":      false,
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(EXTRA)":     false,
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)":    true,
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)":       true,
		"?_pragma=journal_mode(DELETE)&_pragma=synchronous(NORMAL)": false,
		"?_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)":    true,
	} {
		findings, err := pool(t, filepath.Join(t.TempDir(), "app.db")+params, 2).Verify(t.Context())
		if err != nil || (len(findings) == 1) != found {
			t.Errorf("%s: %+v, %v", params, findings, err)
		}
		for _, f := range findings {
			if f.Setting != "synchronous" || f.Problem == "" || f.Fix == "" || f.Value == "" {
				t.Errorf("%s: %+v", params, f)
			}
		}
	}
	dsn, err := sqlite.DSN(filepath.Join(t.TempDir(), "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := pool(t, dsn, 2).Verify(t.Context()); err != nil || len(findings) > 0 {
		t.Errorf("as DSN makes it: %+v, %v", findings, err)
	}
}

// A file that may not grow: nothing is stored by halves, also when the handler
// does not look at the error, and it works again when there is room.
func TestAFullDatabaseStoresNothingByHalves(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	roomy, err := sqlite.DSN(path)
	if err != nil {
		t.Fatal(err)
	}
	big := pool(t, roomy, 2)
	full, err := sqlite.DSN(path + "?_pragma=max_page_count(40)")
	if err != nil {
		t.Fatal(err)
	}
	small := pool(t, full, 1)
	blob := strings.Repeat("x", 64<<10)
	for _, swallows := range []bool{false, true} {
		_, err := small.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "k"}, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			for range 10 {
				if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", blob); err != nil && !swallows {
					return nil, err
				}
			}
			return nil, nil
		})
		if err == nil || store.ClassOf(err) != store.ClassTransient || !strings.Contains(err.Error(), "full") {
			t.Errorf("swallows %v: the error is %v's: %v", swallows, store.ClassOf(err), err)
		}
		if n, claims := count(t, big, "effects"), count(t, big, "once_claims"); n != 0 || claims != 0 {
			t.Errorf("swallows %v: %d effects and %d claims", swallows, n, claims)
		}
	}
	if r, err := big.Do(t.Context(), store.Claim{Consumer: "a/b", Key: "k"}, effect(blob)); err != nil || r.Duplicate {
		t.Errorf("with room: %+v, %v", r, err)
	}
}

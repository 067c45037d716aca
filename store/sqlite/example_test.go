package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
	"github.com/watermill-once/watermill-once/store/sqlite"
)

// open makes a store in a new file, with its tables.
func open() (s *store.SQL, done func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	s, err = sqlite.Open(filepath.Join(dir, "app.db"), store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Migrate(context.Background()); err != nil {
		log.Fatal(err)
	}
	return s, func() {
		_ = s.Close()
		_ = os.RemoveAll(dir)
	}
}

// A store over the application's own pool.
func ExampleNew() {
	dir, _ := os.MkdirTemp("", "example-")
	defer os.RemoveAll(dir)
	dsn, err := sqlite.DSN(filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	db := sqlx.MustConnect("sqlite", dsn)
	defer db.Close()

	claims := sqlite.New(db, store.WithPrefix("billing_"), store.WithLogger(slog.New(slog.DiscardHandler)))
	defer claims.Close()
	if err := claims.Migrate(context.Background()); err != nil {
		log.Fatal(err)
	}
	findings, err := claims.Verify(context.Background())
	fmt.Println(len(findings), err)
	// Output: 0 <nil>
}

// The one method that everything rests on: fn runs when the claim is new.
func ExampleOpen() {
	s, done := open()
	defer done()
	for range 2 {
		result, err := s.Do(context.Background(), store.Claim{Consumer: "billing/charge", Key: "order 17"},
			func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
				fmt.Println("charged")
				return nil, nil
			})
		fmt.Println("duplicate:", result.Duplicate, err)
	}
	// Output:
	// charged
	// duplicate: false <nil>
	// duplicate: true <nil>
}

// An operator looks at a claim, and lets the message run again.
func Example_lookupAndForget() {
	s, done := open()
	defer done()
	ctx := context.Background()
	claim := store.Claim{Consumer: "billing/charge", Key: "order 17"}
	nothing := func(context.Context, *sqlx.Tx) ([]store.Output, error) { return nil, nil }
	if _, err := s.Do(ctx, claim, nothing); err != nil {
		log.Fatal(err)
	}
	found, ok, _ := s.Lookup(ctx, "billing/charge", "order 17")
	fmt.Println(ok, found.Key)
	forgotten, _ := s.Forget(ctx, "billing/charge", "order 17")
	fmt.Println("forgotten:", forgotten)
	// Output:
	// true order 17
	// forgotten: true
}

// The guard purges by itself; this is what it calls.
func Example_purge() {
	s, done := open()
	defer done()
	deleted, err := s.Purge(context.Background(), store.Purge{Retention: 15 * 24 * time.Hour})
	fmt.Println(deleted, err)
	// Output: 0 <nil>
}

// For a team that migrates with its own tool.
func Example_script() {
	s, done := open()
	defer done()
	script, err := s.Script("app")
	first, _, _ := strings.Cut(script, "\n")
	fmt.Println(first, err)
	// Output: -- watermill-once, sqlite: versions 1 to 4 <nil>
}

// Statements prepared on the store's own handle can be used in any attempt.
func Example_preparer() {
	s, done := open()
	defer done()
	ctx := context.Background()
	s.DB().MustExec(`CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER)`)
	s.DB().MustExec(`INSERT INTO accounts VALUES ('alice', 100)`)
	charge, err := s.Preparer().PreparexContext(ctx, `UPDATE accounts SET balance = balance - ? WHERE id = ?`)
	if err != nil {
		log.Fatal(err)
	}
	defer charge.Close()
	_, err = s.Do(ctx, store.Claim{Consumer: "billing/charge", Key: "order 17"},
		func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			_, err := tx.StmtxContext(ctx, charge).ExecContext(ctx, 30, "alice")
			return nil, err
		})
	var balance int
	_ = s.DB().Get(&balance, `SELECT balance FROM accounts`)
	fmt.Println(balance, err)
	// Output: 70 <nil>
}

// A setting that cannot work is said at once, with the fix.
func ExampleNew_invalid() {
	s, _ := sqlite.Open("app.db", store.WithPrefix("My-Tables"))
	defer s.Close()
	err := s.Validate(store.Claim{Consumer: "billing/charge"})
	fmt.Println(errors.Is(err, store.ErrInvalid))
	// Output: true
}

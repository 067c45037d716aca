// Command bench measures watermill-once against the same work written by hand,
// on this machine, and prints one JSON line per figure:
//
//	{"bench":"postgres first attempt, 8 in flight","ours":…,"unit":"µs","peer":"handwritten","ratio":…}
//
// ours is a median; ratio says how many times as fast as the peer we are (peer's
// time ÷ ours), as the median over interleaved rounds: each round runs both, in
// turn first, in this one process, on the same pool and with the same
// durability. A single run of a small machine says little; a ratio says more.
//
// Databases are those whose address is set: ONCE_TEST_POSTGRES,
// ONCE_TEST_MARIADB; SQLite always.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

// figure is one line of the output.
type figure struct {
	Bench  string  `json:"bench"`
	Ours   float64 `json:"ours"`
	Unit   string  `json:"unit"`
	Peer   string  `json:"peer"`
	Ratio  float64 `json:"ratio"`
	Want   string  `json:"want"`
	Allocs *int64  `json:"allocs,omitempty"`
}

func main() {
	rounds := flag.Int("rounds", 41, "interleaved rounds per figure; the median counts")
	messages := flag.Int("messages", 75, "messages per round and worker")
	only := flag.String("only", "", "run only figures of this kind: guard, postgres, mariadb, sqlite, relay (comma-separated)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	if err := run(ctx, *rounds, *messages, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, messages int, only []string) error {
	wanted := func(kind string) bool {
		for _, o := range only {
			if o == "" || o == kind {
				return true
			}
		}
		return false
	}
	out := json.NewEncoder(os.Stdout)
	if wanted("guard") {
		if err := overNothing(out); err != nil {
			return err
		}
	}
	for _, open := range []func(context.Context) (*database, error){postgresDB, mariaDB, sqliteDB} {
		db, err := open(ctx)
		if err != nil {
			return err
		}
		if db == nil || !wanted(db.name) {
			continue
		}
		if err := db.measure(ctx, out, rounds, messages); err != nil {
			return fmt.Errorf("%s: %w", db.name, err)
		}
		if err := db.store.Close(); err != nil {
			return err
		}
	}
	if wanted("relay") {
		return relayAgainstForwarder(ctx, out)
	}
	return nil
}

// measure prints a database's figures.
func (d *database) measure(ctx context.Context, out *json.Encoder, rounds, messages int) error {
	for _, inFlight := range []int{1, 8} {
		if err := againstHandwritten(ctx, out, d, inFlight, rounds, messages); err != nil {
			return err
		}
	}
	if d.outbox == "" {
		return nil
	}
	for _, inFlight := range []int{1, 8} {
		if err := againstHandwrittenOutbox(ctx, out, d, inFlight, rounds, messages); err != nil {
			return err
		}
	}
	return nil
}

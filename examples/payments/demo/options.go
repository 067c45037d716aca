package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

const help = `Three consumers get the same stream of transfers, one after the other:

  watermill-once        the handler behind this library's guard
  no dedup              the same handler, in a transaction of its own
  Watermill's           the same behind middleware.Deduplicator, keyed by the message's UUID,
  Deduplicator          in memory, as its documentation has it

Some transfers are sent twice, at once or later. The handler fails now and then, before it has
written anything or after. The consumer is a process of its own, and is killed (SIGKILL) while
messages are in flight; another one takes over. The first kill hits between the commit and the
sending of a receipt, the next between its sending and the ack, the third at random, and so on. At
the end the books and the receipts are compared with what was sent. The last line is for machines and tells of watermill-once:

  demo: messages=… deliveries=… effects=… duplicates=… lost=0 doubled=0 receipts_lost=0

Brokers
  gochannel   Watermill's Go channel, in the consumer's process. This process plays the rest of
              a broker: it keeps the messages and sends again all that has no ack. No server.
  kafka       a real one, at ONCE_TEST_KAFKA. Nobody delivers again but Kafka.
Stores
  sqlite      a file in a temporary folder. No server.
  postgres    the server at ONCE_TEST_POSTGRES, a fresh schema for each run
  mariadb     the server at ONCE_TEST_MARIADB, a fresh database for each run ("mysql" is the same)

Exit status: 0; 1 when watermill-once lost or doubled a transfer or a receipt, or when neither of the others did,
because then the demo proves nothing; 2 when it could not run; 130 when interrupted.

Flags:
`

var (
	brokers = []string{"gochannel", "kafka"}
	stores  = []string{"sqlite", "postgres", "mariadb"}
)

type options struct {
	broker, store   string
	messages, kills int
	seed            uint64
	timeout         time.Duration
	verbose         bool
}

// parseOptions prints the help for those who ask, and on stderr what is wrong
// with args.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.StringVar(&o.broker, "broker", "gochannel", "gochannel or kafka")
	f.StringVar(&o.store, "store", "sqlite", "sqlite, postgres or mariadb")
	f.IntVar(&o.messages, "messages", 600, "how many transfers; about a quarter of them is sent twice")
	f.IntVar(&o.kills, "kills", 4, "how often each consumer is killed")
	f.Uint64Var(&o.seed, "seed", 1, "decides about amounts, duplicates, failures and when to kill")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long one of the three runs may take")
	f.BoolVar(&o.verbose, "v", false, "log to stderr what the consumers do")
	f.Usage = func() {} // only for those who ask
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(out)
			fmt.Fprint(out, help)
			f.PrintDefaults()
		}
		return options{}, err
	}
	if o.store == "mysql" {
		o.store = "mariadb"
	}
	if wrong := o.wrong(f.Args()); len(wrong) > 0 {
		err := errors.New(strings.Join(wrong, "; "))
		fmt.Fprintln(os.Stderr, "demo:", err, "(see -help)")
		return options{}, err
	}
	return o, nil
}

// wrong lists what cannot work.
func (o options) wrong(rest []string) []string {
	var list []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	check(slices.Contains(brokers, o.broker), "-broker=%s: want %s", o.broker, strings.Join(brokers, " or "))
	check(slices.Contains(stores, o.store), "-store=%s: want %s", o.store, strings.Join(stores, " or "))
	check(o.messages >= 10, "-messages=%d: want at least 10", o.messages)
	check(o.kills >= 0 && o.kills <= o.messages/10, "-kills=%d: want at most one for 10 messages", o.kills)
	check(o.timeout > 0, "-timeout=%s: want more than 0", o.timeout)
	check(len(rest) == 0, "what is %q?", rest)
	return list
}

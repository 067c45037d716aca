package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses. A demo that cannot run differs from one that ran and found
// something wrong.
const (
	exitFound       = 1
	exitCannotRun   = 2
	exitInterrupted = 130
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == consumerArg {
		os.Exit(consumerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := demoMain(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(status)
}

func demoMain(ctx context.Context, args []string, out io.Writer) int {
	o, err := parseOptions(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitCannotRun // it was said why
	}
	results, err := runAll(ctx, o, out)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitCannotRun
	}
	if !present(out, results) {
		return exitFound
	}
	return 0
}

package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// childVariable is set in the environment of a process that [Child] takes over.
const childVariable = "ONCE_STORETEST_CHILD"

// Child must be called first in the TestMain of a dialect whose [Setup] has
// Processes: the suite starts the test binary again for what only another
// process can show (a race of many, a kill -9). In such a process it obeys its
// parent and does not return; in any other it does nothing. open opens the
// store of a DSN.
func Child(open func(dsn string) (*store.SQL, error)) {
	if os.Getenv(childVariable) == "" {
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, dsn, _ := strings.Cut(lines.Text(), " ")
		answer := "done"
		if err := obey(open, command, dsn); err != nil {
			answer = strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Fprintln(os.Stdout, answer)
	}
	os.Exit(0)
}

func obey(open func(dsn string) (*store.SQL, error), command, dsn string) error {
	if command == "hello" {
		return nil
	}
	s, err := open(dsn)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := context.Background()
	switch command {
	case "migrate":
		return s.Migrate(ctx)
	case "hold":
		// Writes, tells, and never returns: the parent kills this process.
		_, err := s.Do(ctx, store.Claim{Consumer: consumer, Key: "held"}, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
			if err := addEffect(ctx, tx, "child"); err != nil {
				return nil, err
			}
			fmt.Fprintln(os.Stdout, "done")
			_, err := io.Copy(io.Discard, os.Stdin)
			return nil, err
		})
		return err
	default:
		return fmt.Errorf("unknown command %q", command)
	}
}

// child is a process that obeys.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// spawn starts a process, which ends with the test.
func spawn(t testing.TB) *child {
	t.Helper()
	c := &child{command: exec.Command(os.Args[0], "-test.run=^$")}
	c.command.Env = append(os.Environ(), childVariable+"=1")
	c.command.Stderr = os.Stderr
	var err error
	if c.in, err = c.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// tell sends a command; answer waits for the answer to it, "done" or an error.
func (c *child) tell(command, dsn string) error {
	_, err := fmt.Fprintln(c.in, command, dsn)
	return err
}

func (c *child) answer() string {
	if !c.out.Scan() {
		return fmt.Sprintf("the process said nothing and ended (%v)", c.out.Err())
	}
	return c.out.Text()
}

// kill is a kill -9, and waits until the process is gone.
func (c *child) kill() {
	if c.command.ProcessState != nil {
		return
	}
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
}

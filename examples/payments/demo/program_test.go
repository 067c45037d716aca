package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestDemoGoChannelSQLite(t *testing.T) {
	t.Parallel()
	out := wantDemo(t, "-broker=gochannel", "-store=sqlite", "-messages=80", "-kills=2")
	if none := rowOf(t, out, byNothing); none.doubled == 0 || none.receipts.doubled == 0 {
		t.Errorf("no dedup has doubled no transfer or no receipt:\n%s", out)
	}
	if theirs := rowOf(t, out, byDeduplicator); theirs.lost == 0 || theirs.receipts.lost == 0 {
		t.Errorf("Watermill's Deduplicator has lost no transfer or no receipt:\n%s", out)
	}
}

// Without kills, and without duplicates or faults among so few messages, all
// three are right.
func TestDemoThatProvesNothing(t *testing.T) {
	t.Parallel()
	seed := strconv.FormatUint(seedOfPeace(t, 10), 10)
	out, _, status := runDemo(t, "-messages=10", "-kills=0", "-seed="+seed)
	if status != exitFound || !strings.Contains(out, "NOTHING PROVEN") {
		t.Errorf("exit status %d, want %d and why:\n%s", status, exitFound, out)
	}
}

// seedOfPeace finds a seed with which nothing goes wrong.
func seedOfPeace(t *testing.T, messages int) uint64 {
	t.Helper()
	for seed := range uint64(1_000_000) {
		p := newPlan(seed, messages, 0)
		if len(p.sendings) == messages && !anyFault(seed, p) {
			return seed
		}
	}
	t.Fatal("no such seed")
	return 0
}

func anyFault(seed uint64, p *plan) bool {
	f := newFaults(seed)
	for _, o := range p.orders {
		if f.draw(o.id) < failBefore+failAfter {
			return true
		}
	}
	return false
}

func TestDemoThatCannotRun(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-broker=pigeon"}, {"-store=paper"}, {"-messages=1"}, {"-kills=-1"}, {"-nonsense"}, {"more"}, {"-timeout=1ms"}} {
		if out, _, status := runDemo(t, args...); status != exitCannotRun {
			t.Errorf("%s: exit status %d, want %d:\n%s", args, status, exitCannotRun, out)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	out, _, status := runDemo(t, "-help")
	if status != 0 || !strings.Contains(out, "-messages") || !strings.Contains(out, "Exit status") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
}

// Nothing is left behind, neither by Ctrl-C nor by a kill that leaves the
// parent no time: its consumer sees the pipe close.
func TestNoProcessIsLeftBehind(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			cmd := program(t, "-messages=100000", "-kills=1000")
			cmd.Env = append(cmd.Env, "TMPDIR="+temp)
			stderr := startAndSee(t, cmd, "killed between")
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			// Consumers hold this pipe as well: it ends when all are gone.
			_, _ = io.Copy(io.Discard, stderr)
			_ = cmd.Wait() // its status says more
			if signal == syscall.SIGKILL {
				return
			}
			if status := cmd.ProcessState.ExitCode(); status != exitInterrupted {
				t.Errorf("exit status %d, want %d", status, exitInterrupted)
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// startAndSee returns what is left of stderr after text was in it.
func startAndSee(t *testing.T, cmd *exec.Cmd, text string) io.Reader {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%q did not come: %v", text, err)
		}
		if strings.Contains(line, text) {
			return lines
		}
	}
}

var lastLine = regexp.MustCompile(`\ndemo: messages=(\d+) deliveries=(\d+) effects=(\d+) duplicates=(\d+) lost=0 doubled=0 receipts_lost=0\n$`)

// wantDemo runs the demo and wants it to show what it is to show.
func wantDemo(t *testing.T, args ...string) string {
	t.Helper()
	out, log, status := runDemo(t, args...)
	if status != 0 {
		t.Fatalf("exit status %d:\n%s", status, out)
	}
	for _, m := range []moment{beforeSending, afterSending} {
		if n := strings.Count(log, "killed "+string(m)); n < len(guardings) {
			t.Errorf("%d kills %s, want one of each consumer:\n%s", n, m, log)
		}
	}
	if a := rowOf(t, out, byOnce).receipts; a.byDuplicate+a.byRelay == 0 {
		t.Errorf("neither a redelivery nor the relay has sent anything:\n%s", out)
	}
	n := lastLine.FindStringSubmatch(out)
	if n == nil {
		t.Fatalf("want a last line like %s:\n%s", lastLine, out)
	}
	if n[1] != n[3] {
		t.Errorf("%s messages have %s effects", n[1], n[3])
	}
	if n[4] == "0" {
		t.Error("no duplicate was recognised, so none came")
	}
	return out
}

func runDemo(t *testing.T, args ...string) (out, log string, status int) {
	t.Helper()
	cmd := program(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("%s:\n%s", args, &stderr)
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// program is the demo, to be started.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// stopBound is how long a consumer may take to end when it is told to.
const stopBound = 30 * time.Second

// process is a consumer's process as its parent sees it.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *json.Encoder

	exited chan struct{} // closed when it is gone and every report was heard
	// Both are to be read after exited.
	killed  bool  // because heard said so
	failure error // how it ended
}

// startProcess starts this program again as a consumer. heard is called for
// each of its reports, one after the other; when it returns true the process is
// killed at once, and so it is when ctx ends.
func startProcess(ctx context.Context, a assignment, heard func(report) (kill bool)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, consumerArg) //nolint:gosec // this program itself
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, lines: json.NewEncoder(stdin), exited: make(chan struct{})}
	go p.listen(stdout, heard)
	if err := p.lines.Encode(a); err != nil {
		p.end()
		return nil, fmt.Errorf("give a consumer its assignment: %w", err)
	}
	return p, nil
}

// listen hears reports until the process is gone. What it had written before it
// was killed is still in the pipe, and counts.
func (p *process) listen(stdout io.Reader, heard func(report) bool) {
	defer close(p.exited)
	reports := json.NewDecoder(stdout)
	for {
		var r report
		if err := reports.Decode(&r); err != nil {
			break // the end, perhaps in the middle of a line
		}
		if heard(r) {
			p.killed = true
			p.sigkill()
		}
	}
	p.failure = p.cmd.Wait()
}

// send writes a message to the consumer's stdin; it waits while the pipe is
// full, and fails when the process is gone.
func (p *process) send(m parcel) error { return p.lines.Encode(m) }

// sigkill is what a crash or an impatient operator does: the process can clean
// up nothing.
func (p *process) sigkill() {
	_ = p.cmd.Process.Kill() // fails when it is gone already
}

// end makes sure that the process is gone.
func (p *process) end() {
	p.sigkill()
	<-p.exited
}

// stop tells the process to end, and waits until it has.
func (p *process) stop() error {
	_ = p.stdin.Close() // fails when it is gone already, and then it has said why
	timer := time.NewTimer(stopBound)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.end()
		return fmt.Errorf("the consumer did not stop within %s", stopBound)
	}
	if p.failure != nil && !p.killed {
		return fmt.Errorf("stop the consumer: %w", p.failure)
	}
	return nil
}

// errGone says that a consumer ended although nobody told it to.
var errGone = errors.New("the consumer ended by itself (its own words are above)")

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// display shows how far a run has come, while it works.
type display interface {
	begin(g guarding, total int)
	progress(done int)
	killed(m moment, inFlight int)
	end()
}

// newDisplay is a bar on a terminal and plain lines elsewhere.
func newDisplay(f *os.File) display {
	if term.IsTerminal(int(f.Fd())) {
		return &barDisplay{out: f}
	}
	return &lineDisplay{out: f}
}

// nameWidth is that of the longest guarding.
const nameWidth = len(byDeduplicator)

type barDisplay struct {
	out   io.Writer
	bar   *progressbar.ProgressBar
	name  guarding
	kills int
}

func (d *barDisplay) begin(g guarding, total int) {
	d.name, d.kills = g, 0
	d.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(d.out),
		progressbar.OptionSetDescription(d.describe()),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true),
	)
}

func (d *barDisplay) describe() string {
	return fmt.Sprintf("%-*s  killed %d×", nameWidth, d.name, d.kills)
}

// Errors of the bar are those of writing to the terminal.

func (d *barDisplay) progress(done int) { _ = d.bar.Set(done) }

func (d *barDisplay) killed(moment, int) {
	d.kills++
	d.bar.Describe(d.describe())
}

func (d *barDisplay) end() {
	_ = d.bar.Exit()
	fmt.Fprintln(d.out)
}

// lineDisplay says when a consumer is killed and when a run is over.
type lineDisplay struct {
	out   io.Writer
	name  guarding
	total int
	done  int
	began time.Time
}

func (d *lineDisplay) begin(g guarding, total int) {
	d.name, d.total, d.done, d.began = g, total, 0, time.Now()
	fmt.Fprintf(d.out, "%s: %d messages to come\n", d.name, total)
}

func (d *lineDisplay) progress(done int) { d.done = done }

func (d *lineDisplay) killed(m moment, inFlight int) {
	fmt.Fprintf(d.out, "%s: %d of %d acked, killed %s with %d in flight\n", d.name, d.done, d.total, m, inFlight)
}

func (d *lineDisplay) end() {
	fmt.Fprintf(d.out, "%s: %d of %d acked, %.1f s\n", d.name, d.done, d.total, time.Since(d.began).Seconds())
}

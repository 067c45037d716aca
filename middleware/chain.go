package once

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// neighbour is a middleware of Watermill that must not stand inside the guard.
type neighbour struct {
	name    string
	refused bool // no handler runs behind it
	harm    string
	fix     string
}

const outside = "register it with router.AddMiddleware and the guard with router.AddPlugin(guard.Plugin), which puts the guard inside"

// neighbours are known by the file that their code is in. The name of the
// function does not tell: where the compiler inlines the constructor, the
// closure is named after the caller.
var neighbours = map[string]neighbour{
	"retry.go":         {"Retry", true, "it would run the handler several times in one transaction, each on what the failed one left", outside},
	"poison.go":        {"PoisonQueue", true, "it would hide the handler's error, so that half-done work is committed", outside},
	"duplicator.go":    {"Duplicator", true, "it would run the handler twice in one transaction", outside},
	"deduplicator.go":  {"Deduplicator", true, "it marks a message before its work is committed, and drops the redelivery that has to do it", "remove it: the guard drops duplicates"},
	"instant_ack.go":   {"InstantAck", true, "it acks before the commit, so what is rolled back never comes again", "remove it"},
	"ignore_errors.go": {"IgnoreErrors", false, "it hides the handler's error, so that half-done work is committed", outside + ", or return once.ErrSkip"},
	"throttle.go":      {"Throttle", false, "it waits while a transaction and a slot of the limiter are held", outside},
}

var middlewareFile = regexp.MustCompile(`/watermill(@[^/]+)?/message/router/middleware/[^/]+\.go$`)

func neighbourIn(file string) (neighbour, bool) {
	if !middlewareFile.MatchString(file) {
		return neighbour{}, false
	}
	n, ok := neighbours[path.Base(file)]
	return n, ok
}

// chain is what is known about the middlewares between the guard and a handler.
// The one directly inside is seen when the chain is built, the others when the
// handler first asks for its transaction, by what is on the stack.
type chain struct {
	mu       sync.Mutex
	err      error
	warnings []neighbour // not told yet
	looks    int         // left; a chain does not change, so a few are enough
}

// lookTries bounds how often the stack is looked at in vain: a handler that
// asks from a goroutine of its own has a stack that does not show the chain.
const lookTries = 8

func newChain(next message.HandlerFunc) *chain {
	c := &chain{looks: lookTries}
	pc := reflect.ValueOf(next).Pointer()
	if f := runtime.FuncForPC(pc); f != nil {
		file, _ := f.FileLine(pc)
		c.note(file)
	}
	return c
}

// note judges one function of the chain by its file.
func (c *chain) note(file string) {
	n, ok := neighbourIn(file)
	switch {
	case !ok:
	case n.refused && c.err == nil:
		c.err = fmt.Errorf("%w: %s stands between the guard and the handler, where %s: %s", ErrChain, n.name, n.harm, n.fix)
	case !n.refused:
		c.warnings = append(c.warnings, n)
	}
}

// refusal returns why no handler may run behind this chain.
func (c *chain) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// lookDown looks for wrong neighbours on the stack of a handler that asks for
// its transaction, until one look has reached the guard.
func (c *chain) lookDown() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.looks == 0 {
		return c.err
	}
	c.looks--
	files, reached := filesAbove(callHandler)
	if !reached {
		return nil
	}
	c.looks = 0
	c.warnings = nil // the one directly inside is on the stack as well
	for _, file := range files {
		c.note(file)
	}
	return c.err
}

// insideHandler reports whether this goroutine runs a handler of some guard.
func insideHandler() bool {
	if _, inside := filesAbove(callHandler); inside {
		return true
	}
	_, inside := filesAbove(callFunc)
	return inside
}

// filesAbove returns the files of the functions that were called since bottom,
// and whether bottom is on this goroutine's stack at all.
func filesAbove(bottom any) (files []string, reached bool) {
	entry := reflect.ValueOf(bottom).Pointer()
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if frame.Entry == entry {
			return files, true
		}
		files = append(files, frame.File)
		if !more {
			return files, false
		}
	}
}

// tell reports the warnings once.
func (c *chain) tell(a *attempt) {
	c.mu.Lock()
	warnings := c.warnings
	c.warnings = nil
	c.mu.Unlock()
	for _, n := range warnings {
		a.problem(Misplaced, n.name+" stands between the guard and the handler, where "+n.harm, n.fix)
	}
}

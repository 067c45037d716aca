package once

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// neighbour is a middleware of Watermill that stands in the wrong place.
type neighbour struct {
	name    string
	refused bool // no handler runs behind it
	harm    string
	fix     string
}

// side is where a neighbour stands, with those that are wrong there.
type side struct {
	stands string
	wrong  map[string]neighbour
}

var (
	within = side{"stands between the guard and the handler, where", wrongWithin}
	around = side{"stands outside the guard, where", wrongAround}
)

const skipInstead = "remove it, and return once.ErrSkip for what is to be ignored"

const outside = "register it with router.AddMiddleware and the guard with router.AddPlugin(guard.Plugin), which puts the guard inside"

// wrongWithin are those that must not stand inside the guard. They are known by
// the file that their code is in. The name of the function does not tell: where
// the compiler inlines the constructor, the closure is named after the caller.
var wrongWithin = map[string]neighbour{
	"retry.go":           {"Retry", true, "it would run the handler several times in one transaction, each on what the failed one left", outside},
	"poison.go":          {"PoisonQueue", true, "it would hide the handler's error, so that half-done work is committed", outside},
	"duplicator.go":      {"Duplicator", true, "it would run the handler twice in one transaction", outside},
	"deduplicator.go":    {"Deduplicator", true, "it marks a message before its work is committed, and drops the redelivery that has to do it", "remove it: the guard drops duplicates"},
	"instant_ack.go":     {"InstantAck", true, "it acks before the commit, so what is rolled back never comes again", "remove it"},
	"ignore_errors.go":   {"IgnoreErrors", false, "it hides the handler's error, so that half-done work is committed", skipInstead},
	"throttle.go":        {"Throttle", false, "it waits while a transaction and a slot of the limiter are held", outside},
	"circuit_breaker.go": {"CircuitBreaker", false, "it opens a transaction for each message that it turns away, and an open breaker counts as the handler's failure, so that a poison queue gives up on messages that never ran", "register it outside the poison queue"},
	"delay_on_error.go":  {"DelayOnError", false, "it does not see what fails after the handler, so that a commit that was refused comes again without a delay", outside},
}

// wrongAround are those that do harm, or nothing, outside the guard and cannot
// be told in another way: one that acks is noticed by the message's state.
var wrongAround = map[string]neighbour{
	"ignore_errors.go": {"IgnoreErrors", false, "it does not recognise the handler's errors, which the guard puts into its own, so that none of them is ignored", skipInstead},
	"deduplicator.go":  {"Deduplicator", false, "it drops the redelivery of a message whose work was rolled back, so that the work is never done", "remove it: the guard drops duplicates"},
}

var middlewareFile = regexp.MustCompile(`/watermill(@[^/]+)?/message/router/middleware/[^/]+\.go$`)

func (s side) neighbourIn(file string) (neighbour, bool) {
	if !middlewareFile.MatchString(file) {
		return neighbour{}, false
	}
	n, ok := s.wrong[path.Base(file)]
	return n, ok
}

// chain is what is known about the middlewares around a guard. The one directly
// inside is seen when the chain is built, the others when the handler first
// asks for its transaction, by what is on the stack.
type chain struct {
	mu       sync.Mutex
	err      error
	warnings []warning
	told     int // of them
	looks    int // left; a chain does not change, so a few are enough
}

type warning struct{ detail, fix string }

// lookTries bounds how often the stack is looked at in vain: a handler that
// asks from a goroutine of its own has a stack that does not show the chain.
const lookTries = 8

func newChain(next message.HandlerFunc) *chain {
	c := &chain{looks: lookTries}
	pc := reflect.ValueOf(next).Pointer()
	if f := runtime.FuncForPC(pc); f != nil {
		file, _ := f.FileLine(pc)
		c.note(within, file)
	}
	return c
}

// note judges functions of the chain by their files. One middleware may be seen
// several times: when the chain is built, and in several functions on the stack.
func (c *chain) note(s side, files ...string) {
	for _, file := range files {
		n, ok := s.neighbourIn(file)
		detail := fmt.Sprintf("%s %s %s", n.name, s.stands, n.harm)
		switch {
		case !ok:
		case n.refused && c.err == nil:
			c.err = fmt.Errorf("%w: %s: %s", ErrChain, detail, n.fix)
		case !n.refused && !slices.Contains(c.warnings, warning{detail, n.fix}):
			c.warnings = append(c.warnings, warning{detail, n.fix})
		}
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
	inner, outer := stackAt(callHandler)
	if outer == nil {
		return nil
	}
	c.looks = 0
	c.note(within, inner...)
	c.note(around, outer...)
	return c.err
}

// insideHandler reports whether this goroutine runs a handler of some guard.
func insideHandler() bool {
	if _, outer := stackAt(callHandler); outer != nil {
		return true
	}
	_, outer := stackAt(callFunc)
	return outer != nil
}

// stackAt returns the files of the functions on this goroutine's stack: those
// called since the mark, and those that led to it. Outer is nil when the mark is
// not on this stack.
func stackAt(mark any) (inner, outer []string) {
	entry := reflect.ValueOf(mark).Pointer()
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		switch {
		case frame.Entry == entry:
			outer = []string{}
		case outer != nil:
			outer = append(outer, frame.File)
		default:
			inner = append(inner, frame.File)
		}
		if !more {
			return inner, outer
		}
	}
}

// tell reports each warning once.
func (c *chain) tell(a *attempt) {
	c.mu.Lock()
	warnings := c.warnings[c.told:]
	c.told = len(c.warnings)
	c.mu.Unlock()
	for _, w := range warnings {
		a.problem(Misplaced, w.detail, w.fix)
	}
}

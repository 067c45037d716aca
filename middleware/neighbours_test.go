package once_test

import (
	"errors"
	"strings"
	"testing"

	once "github.com/watermill-once/watermill-once/middleware"
)

// cell is one place of one middleware: what the documentation says, and the
// test that shows it.
type cell struct {
	verdict string // works, refused, detected or hazard
	means   string // the error or the event by which it is refused or detected
	test    func(t *testing.T, r *rig)
}

func works(test func(*testing.T, *rig)) cell  { return cell{"works", "", test} }
func hazard(test func(*testing.T, *rig)) cell { return cell{"hazard", "", test} }

func detected(as once.Problem, test func(*testing.T, *rig)) cell {
	return cell{"detected", string(as), test}
}

type neighbour struct {
	name            string
	outside, inside cell
}

// neighbours is the table of docs/guarantees.md: each of Watermill's
// middlewares directly outside and directly inside the guard.
func neighbours() []neighbour {
	return []neighbour{
		{"Retry", works(retryOutside), refused(retry(2))},
		{"Recoverer", works(recovererOutside), works(recovererInside)},
		{"Timeout", works(timeoutOutside), works(timeoutInside)},
		{"PoisonQueue", works(poisonOutside), refusedBy(poisonEverything)},
		{"Throttle", works(throttleOutside), detected(once.Misplaced, throttleInside)},
		{"InstantAck", detected(once.SettledBefore, instantAckOutside), refused(instantAck)},
		{"Duplicator", works(duplicatorOutside), refused(duplicator)},
		{"IgnoreErrors", detected(once.Misplaced, ignoreErrorsOutside), detected(once.Misplaced, ignoreErrorsInside)},
		{"CircuitBreaker", hazard(breakerOutside), detected(once.Misplaced, breakerInside)},
		{"DelayOnError", works(delayOutside), detected(once.Misplaced, delayInside)},
		{"CorrelationID", works(correlationOutside), works(correlationInside)},
		{"Deduplicator", detected(once.Misplaced, deduplicatorOutside), refusedBy(deduplicator)},
	}
}

func TestNeighbours(t *testing.T) {
	t.Parallel()
	for _, n := range neighbours() {
		for place, c := range map[string]cell{"outside": n.outside, "inside": n.inside} {
			t.Run(n.name+"/"+place, func(t *testing.T) {
				in(t, func(t *testing.T, r *rig) {
					c.test(t, r)
					c.check(t, r, n.name)
				})
			})
		}
	}
}

// check holds the verdict against what the guard said while the test ran, so
// that it is more than a word.
func (c cell) check(t *testing.T, r *rig, name string) {
	t.Helper()
	problems, refusals := eventsOf[once.ChainProblem](r.seen), 0
	for _, err := range r.returned() {
		if errors.Is(err, once.ErrChain) {
			refusals++
		}
	}
	if (refusals > 0) != (c.verdict == "refused") {
		t.Errorf("%d refusals, and the verdict is %q", refusals, c.verdict)
	}
	if c.verdict != "detected" {
		if len(problems) > 0 {
			t.Errorf("the verdict is %q, and the guard said %+v", c.verdict, problems)
		}
		return
	}
	if len(problems) == 0 || c.means == string(once.Misplaced) && len(problems) > 1 {
		t.Errorf("it was detected %d times", len(problems))
	}
	for _, p := range problems {
		if string(p.Problem) != c.means || !strings.Contains(p.Detail+p.Fix, name) || p.Consumer != "svc/h" {
			t.Errorf("the event is %+v", p)
		}
	}
}

package once_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

func panicAlways(*message.Message, int) error { panic("boom") }

// A panic is no error while it unwinds, so a poison queue and a retry see
// nothing of it unless a recoverer stands inside them.
func TestW01_APanicIsDeadLettered(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		r.outside(t, panicAlways, middleware.Recoverer, r.poison(t), retry(2), middleware.Recoverer)
		r.send(t, "m1")
		elapse(time.Minute)
		r.want(t, state{
			runs: 3, acked: 1, dead: 1,
			outcomes: slices.Repeat([]once.Outcome{once.Panicked}, 3),
		})
		letter := r.letters()[0]
		if reason := letter.Metadata.Get(middleware.ReasonForPoisonedKey); !strings.Contains(reason, "boom") {
			t.Errorf("the reason is %q", reason)
		}
		if h := letter.Metadata.Get(middleware.PoisonedHandlerKey); h != "h" || letter.UUID != "m1" {
			t.Errorf("%s of %q is dead", letter.UUID, h)
		}
	})
}

func TestW01_WithTheOuterRecovererOnlyItNeverIs(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		r.outside(t, panicAlways, middleware.Recoverer, r.poison(t), retry(2))
		r.send(t, "m1")
		elapse(50 * time.Second) // a delivery each second
		got := r.state(t)
		if got.dead != 0 || got.acked != 0 || got.effects != 0 {
			t.Errorf("got %+v", got)
		}
		if got.runs < 50 || got.runs != got.nacked {
			t.Errorf("%d runs in %d deliveries: neither dead-lettered nor retried was expected", got.runs, got.nacked)
		}
	})
}

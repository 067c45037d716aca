package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// W09: what takes errors away before the guard sees them, as CQRS does with
// AckCommandHandlingErrors. Package oncecqrs has the same with CQRS itself.
func TestW09_AReportedErrorRollsBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		outcome once.Outcome
		acked   bool
	}{
		"a handler's error":   {errBusiness, once.Dropped, true},
		"a permanent error":   {once.Permanent(errBusiness), once.Dropped, true},
		"a transient error":   {store.WithClass(store.ClassTransient, errBusiness), once.RolledBack, false},
		"nothing wrong":       {nil, once.Processed, true},
		"asked to be skipped": {once.ErrSkip, once.Dropped, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, seen := newSQLiteFake(t), &recorder{}
			config := quick()
			config.Observer = seen
			h := handle(newGuard(t, s, config), func(msg *message.Message) error {
				err := errors.Join(effectOf(msg), once.Report(msg.Context(), c.err))
				_ = err // hidden
				return nil
			})
			if err := h(deliver(t, "m1", "x")); (err == nil) != c.acked {
				t.Errorf("got %v", err)
			}
			seen.wantOutcomes(t, c.outcome)
			if c.err != nil {
				s.wantEffects(t, 0)
				if e := eventsOf[once.AttemptEnded](seen)[0]; !errors.Is(e.Err, c.err) {
					t.Errorf("the event says %v", e.Err)
				}
			}
		})
	}
}

func TestReport_OutsideOfAnAttempt(t *testing.T) {
	t.Parallel()
	if err := once.Report(context.Background(), errBusiness); !errors.Is(err, errBusiness) {
		t.Errorf("got %v", err)
	}
}

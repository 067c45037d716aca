package once_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

func retry(times int) message.HandlerMiddleware {
	return middleware.Retry{MaxRetries: times, InitialInterval: time.Second, Multiplier: 1, Logger: watermill.NopLogger{}}.Middleware
}

// Variables, because a constructor that is called may be inlined.
var (
	instantAck message.HandlerMiddleware = middleware.InstantAck
	duplicator message.HandlerMiddleware = middleware.Duplicator
)

func poisonEverything(t *testing.T, r *rig) message.HandlerMiddleware {
	t.Helper()
	m, err := middleware.PoisonQueue(r.bus.channel, deadTopic)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func deduplicator(*testing.T, *rig) message.HandlerMiddleware {
	return (&middleware.Deduplicator{
		KeyFactory: middleware.NewMessageHasherSHA256(64),
		Repository: &firstSeen{seen: map[string]bool{}},
		Timeout:    time.Minute,
	}).Middleware
}

// firstSeen is what Watermill's own repository is, without its goroutine.
type firstSeen struct{ seen map[string]bool }

func (f *firstSeen) IsDuplicate(_ context.Context, key string) (bool, error) {
	before := f.seen[key]
	f.seen[key] = true
	return before, nil
}

func refused(m message.HandlerMiddleware) cell {
	return refusedBy(func(*testing.T, *rig) message.HandlerMiddleware { return m })
}

// refusedBy: no handler runs, nothing is settled for good, and no message pays
// for a mistake of the program.
func refusedBy(with func(*testing.T, *rig) message.HandlerMiddleware) cell {
	return cell{"refused", "ErrChain", func(t *testing.T, r *rig) {
		r.inside(t, succeed, with(t, r))
		r.send(t, "m1")
		elapse(1500 * time.Millisecond) // the second delivery comes after a second
		r.want(t, state{nacked: 2, outcomes: []once.Outcome{once.Refused, once.Refused}})
		name := strings.Split(t.Name(), "/")[1]
		if !slices.ContainsFunc(r.returned(), func(err error) bool { return strings.Contains(err.Error(), name) }) {
			t.Errorf("no error names %s: %v", name, r.returned())
		}
	}}
}

func succeed(*message.Message, int) error { return nil }

// failFirst fails the first run of all.
func failFirst(_ *message.Message, run int) error {
	if run == 1 {
		return errBusiness
	}
	return nil
}

package once_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	once "github.com/watermill-once/watermill-once/middleware"
)

// monster is an error of 200 KB with a NUL, a broken character and half an
// emoji at its end, wrapped 50 times.
func monster() error {
	err := errors.New(strings.Repeat("x", 200<<10) + "\x00\xff" + "😀"[:2])
	for range 50 {
		err = fmt.Errorf("layer: %w", err)
	}
	return err
}

// reasonOf runs a handler that fails with err until it is dead, and returns why.
func reasonOf(t *testing.T, r *rig, uuid string, err error) string {
	t.Helper()
	r.outside(t, func(*message.Message, int) error { return err }, r.poison(t))
	r.send(t, uuid)
	elapse(time.Minute)
	r.want(t, state{runs: 1, acked: 1, dead: 1, outcomes: []once.Outcome{once.Failed}})
	return r.letters()[0].Metadata.Get(middleware.ReasonForPoisonedKey)
}

// Watermill's poison queue takes the whole text of an error as the reason, which
// a broker or a table may refuse. So the guard's errors have a bounded, plain
// text, whatever the handler said and whatever the key; the log has the whole.
func TestC14_TheReasonOfADeadLetterIsBounded(t *testing.T) {
	for name, uuid := range map[string]string{
		"plain key":  "m1",
		"long key":   strings.Repeat("k", 8<<10),
		"binary key": strings.Repeat("\x00\xff😀", 2<<10),
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, r *rig) {
				err := monster()
				reason := reasonOf(t, r, uuid, err)
				if len(reason) > 1<<10 || !utf8.ValidString(reason) || strings.Contains(reason, "\x00") {
					t.Errorf("the reason has %d bytes: %q", len(reason), reason)
				}
				if !strings.HasPrefix(reason, `consumer "svc/h", key "`) || !strings.Contains(reason, "layer: layer") {
					t.Errorf("it does not say enough: %q", reason)
				}
				if !errors.Is(eventsOf[once.AttemptEnded](r.seen)[0].Err, err) {
					t.Error("the event does not have the whole error")
				}
			})
		})
	}
}

func TestC14_TheLogHasTheWholeError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := quick()
	config.Observer = once.SlogObserver(slog.New(slog.NewTextHandler(&log, nil)))
	g := newGuard(t, newFake(), config)
	err := handle(g, func(*message.Message) error {
		return fmt.Errorf("%s: the end", strings.Repeat("x", 20<<10))
	})(deliver(t, "m1", "x"))
	if err == nil || len(err.Error()) > 1<<10 || !strings.Contains(log.String(), "the end") {
		t.Errorf("%d bytes in the error, %d in the log", len(err.Error()), log.Len())
	}
}

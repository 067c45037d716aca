package once_test

import (
	"errors"
	"fmt"
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

// mostAdded bounds what the guard puts before an error: a consumer of 255 bytes,
// a key of which 128 are shown, and both quoted.
const mostAdded = 2 << 10

// reasonOf runs a handler that fails with err until it is dead, and returns why.
func reasonOf(t *testing.T, r *rig, uuid string, err error) string {
	t.Helper()
	r.outside(t, func(*message.Message, int) error { return err }, r.poison(t))
	r.send(t, uuid)
	elapse(time.Minute)
	r.want(t, state{runs: 1, acked: 1, dead: 1, outcomes: []once.Outcome{once.Failed}})
	return r.letters()[0].Metadata.Get(middleware.ReasonForPoisonedKey)
}

// The guard adds a bounded beginning, once, and valid text whatever the key. It
// does not cut what the handler said: Watermill's poison queue takes the whole
// text of an error as the reason, which a broker may then refuse.
func TestC14_TheGuardAddsABoundedReason(t *testing.T) {
	for name, uuid := range map[string]string{
		"plain key":  "m1",
		"long key":   strings.Repeat("k", 8<<10),
		"binary key": strings.Repeat("\x00\xff😀", 2<<10),
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, r *rig) {
				err := monster()
				reason := reasonOf(t, r, uuid, err)
				added, ok := strings.CutSuffix(reason, err.Error())
				if !ok || strings.Contains(added, "layer") {
					t.Fatalf("the handler's error is not there once and whole: %d bytes", len(reason))
				}
				if len(added) > mostAdded || !utf8.ValidString(added) || strings.Contains(added, "\x00") {
					t.Errorf("the guard adds %d bytes: %q", len(added), added)
				}
			})
		})
	}
}

// What stands in metadata is then not what every broker and table takes: it is
// larger than a frame of AMQP (128 KiB), and no valid text.
func TestC14_TheHandlersReasonIsNotBounded(t *testing.T) {
	in(t, func(t *testing.T, r *rig) {
		reason := reasonOf(t, r, "m1", monster())
		if len(reason) <= 128<<10 || utf8.ValidString(reason) || !strings.Contains(reason, "\x00") {
			t.Errorf("%d bytes: it is bounded now, so say so in docs/guarantees.md", len(reason))
		}
	})
}

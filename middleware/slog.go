package once

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/watermill-once/watermill-once/store"
)

// SlogObserver writes events to a logger; nil is slog.Default() at the time of
// each event. It is the default observer.
//
// Processed messages are logged at Debug, duplicates at Info, failures that the
// guard deals with by itself (transient ones, and those of a handler) at Warn,
// and what a person has to look at (permanent failures, panics, refusals) at
// Error. Attributes are in snake_case. A payload is never logged; ids and keys
// are.
//
// What a handler or a chain does wrong with every message ([TxUnused],
// [ChainProblem]) is logged at Warn once, then at Debug.
func SlogObserver(logger *slog.Logger) Observer {
	return &slogObserver{logger: logger}
}

type slogObserver struct {
	logger *slog.Logger
	// warned holds a wrongKey for each thing that was said once. It is bounded
	// by the handlers that the program has.
	warned sync.Map
}

type wrongKey struct{ consumer, what string }

func (o *slogObserver) Observe(ctx context.Context, e Event) {
	logger := o.logger
	if logger == nil {
		logger = slog.Default()
	}
	level := o.level(e)
	if !logger.Enabled(ctx, level) {
		return
	}
	text, attrs := describe(e)
	logger.LogAttrs(ctx, level, text, attrs...) //nolint:sloglint // describe chooses among constants
}

func (o *slogObserver) level(e Event) slog.Level {
	switch e := e.(type) {
	case AttemptEnded:
		return attemptLevel(e)
	case HookFailed:
		return slog.LevelError
	case TxUnused:
		return o.onceLevel(wrongKey{e.Consumer, "tx_unused"})
	case ChainProblem:
		return o.onceLevel(wrongKey{e.Consumer, string(e.Problem)})
	case AttemptHeld, KeyReused, MarkFailed, StoreWeak, PoolSmall:
		return slog.LevelWarn
	case OutputFailed:
		return outputLevel(e)
	case Relayed:
		return relayLevel(e)
	case Purged:
		return purgeLevel(e)
	case Closed:
		return closedLevel(e)
	default:
		return slog.LevelInfo
	}
}

func (o *slogObserver) onceLevel(key wrongKey) slog.Level {
	if _, said := o.warned.LoadOrStore(key, true); said {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func attemptLevel(e AttemptEnded) slog.Level {
	switch {
	case e.Outcome == Processed, e.Outcome == Skipped:
		return slog.LevelDebug
	case e.Outcome == Duplicate, e.Outcome == Cancelled:
		return slog.LevelInfo
	case e.Outcome == Panicked, e.Outcome == Refused, e.Class == store.ClassPermanent:
		return slog.LevelError
	default:
		return slog.LevelWarn
	}
}

func outputLevel(e OutputFailed) slog.Level {
	if e.Dead {
		return slog.LevelError
	}
	return slog.LevelWarn
}

func relayLevel(e Relayed) slog.Level {
	if e.Err != nil {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func purgeLevel(e Purged) slog.Level {
	switch {
	case e.Err != nil:
		return slog.LevelWarn
	case e.Deleted == 0:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

func closedLevel(e Closed) slog.Level {
	if e.Left > 0 {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// describe puts an event into words.
func describe(e Event) (string, []slog.Attr) {
	switch e := e.(type) {
	case AttemptEnded:
		return "message " + endings[e.Outcome], e.attrs()
	case AttemptHeld:
		return "message held: the store is not available",
			append(e.about(), slog.Duration("wait", e.Wait), slog.Duration("held", e.Held), slog.String("error", wholeText(e.Err)))
	case KeyReused:
		return "message dropped as a duplicate although its payload differs from the claim's",
			append(e.about(), slog.Time("claimed_at", e.ClaimedAt), slog.Duration("age", e.Age))
	case TxUnused:
		return "the handler sent no statement on its transaction: what it writes elsewhere is not protected (use once.Tx)", e.about()
	case HookFailed:
		return "a function given to AfterCommit panicked; the message is committed",
			append(e.about(), slog.Any("panic", e.Panic), slog.String("stack", string(e.Stack)))
	case ChainProblem:
		return "the guard's surroundings weaken it",
			append(e.about(), slog.String("problem", string(e.Problem)), slog.String("detail", e.Detail), slog.String("fix", e.Fix))
	default:
		return describeLife(e)
	}
}

func describeLife(e Event) (string, []slog.Attr) {
	switch e := e.(type) {
	case Started:
		return "guard started", []slog.Attr{slog.String("service", e.Service)}
	case StoreWeak:
		return "a setting of the database weakens the promise",
			[]slog.Attr{slog.String("setting", e.Setting), slog.String("value", e.Value), slog.String("problem", e.Problem), slog.String("fix", e.Fix)}
	case PoolSmall:
		return "the pool has no connection to spare: make it larger than Limit, or lower Limit",
			[]slog.Attr{slog.Int("max_open", e.MaxOpen), slog.Int("limit", e.Limit)}
	case OutputFailed:
		return outputEnding(e), e.attrs()
	case MarkFailed:
		return "outputs that were sent could not be marked yet: a crash now has them sent again",
			[]slog.Attr{slog.Int("waiting", e.Waiting), slog.String("error", wholeText(e.Err))}
	case Relayed:
		return "outputs relayed", e.attrs()
	case Purged:
		return "claims purged", e.attrs()
	case Closed:
		return "guard closed", []slog.Attr{slog.Int("left", e.Left), slog.Duration("took", e.Took)}
	default:
		return fmt.Sprintf("%T", e), nil
	}
}

var endings = [...]string{
	Processed:     "processed",
	Duplicate:     "is a duplicate",
	Skipped:       "skipped",
	Failed:        "failed",
	Panicked:      "failed: the handler panicked",
	Exited:        "failed: the handler ended its goroutine",
	RolledBack:    "rolled back: the database asked to try again, or failed under it",
	InFlight:      "is in flight elsewhere",
	Unavailable:   "not handled: the store is not available",
	CommitUnknown: "may be committed: the answer was lost",
	Cancelled:     "cancelled",
	NoKey:         "has no key",
	Reused:        "came under a key that was claimed with another payload",
	Unsent:        "is committed, but an output could not be sent yet",
	Dropped:       "dropped: its error was hidden on its way to the guard",
	Refused:       "refused: the program has to change",
}

func outputEnding(e OutputFailed) string {
	if e.Dead {
		return "an output is given up on: list, revive or drop it with guard.DeadOutputs, ReviveOutputs, DropOutputs"
	}
	return "an output could not be sent yet"
}

func (e OutputFailed) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("consumer", e.Consumer), slog.String("topic", e.Topic), slog.String("output_uuid", brief(e.UUID)),
		slog.Int64("output", int64(e.ID)), slog.Int("attempts", e.Attempts), slog.String("error", wholeText(e.Err)),
	}
	if e.Relayed && !e.Dead {
		attrs = append(attrs, slog.Duration("retry", e.Retry))
	}
	return attrs
}

func (r Relayed) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.Int("sent", r.Sent), slog.Int("failed", r.Failed), slog.Int("dead", r.Dead), slog.Duration("took", r.Took)}
	if r.Err != nil {
		attrs = append(attrs, slog.String("error", wholeText(r.Err)))
	}
	return attrs
}

func (s Subject) about() []slog.Attr {
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String("consumer", s.Consumer))
	if s.Topic != "" {
		attrs = append(attrs, slog.String("topic", s.Topic))
	}
	if s.UUID != "" {
		attrs = append(attrs, slog.String("message_uuid", brief(s.UUID)))
	}
	if s.Key != s.UUID {
		attrs = append(attrs, slog.String("key", brief(s.Key)))
	}
	return attrs
}

func (e AttemptEnded) attrs() []slog.Attr {
	attrs := append(e.about(), slog.String("outcome", e.Outcome.String()), slog.Duration("took", e.Took))
	if e.Outcome == Duplicate || e.Outcome == Reused {
		attrs = append(attrs, slog.Time("claimed_at", e.ClaimedAt), slog.Duration("age", e.Age))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("class", e.Class.String()), slog.Int("failures", e.Failures), slog.Duration("backoff", e.Backoff), slog.String("error", wholeText(e.Err)))
	}
	return attrs
}

func (e Purged) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.Int64("deleted", e.Deleted), slog.Duration("took", e.Took)}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", wholeText(e.Err)))
	}
	return attrs
}

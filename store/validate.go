package store

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxConsumer    = 255
	maxFingerprint = 64
)

// Validate is [Validator.Validate].
func (s *SQL) Validate(c Claim) error {
	if s.invalid != nil {
		return s.invalid
	}
	c = c.withDefaults()
	if err := validConsumer(c.Consumer); err != nil {
		return err
	}
	if len(c.Fingerprint) > maxFingerprint {
		return fmt.Errorf("%w: the fingerprint has %d bytes, at most %d can be kept: hash the payload", ErrInvalid, len(c.Fingerprint), maxFingerprint)
	}
	for _, b := range []struct {
		name  string
		value time.Duration
	}{
		{"wait", c.Wait},
		{"acquire bound", c.Bounds.Acquire},
		{"commit bound", c.Bounds.Commit},
		{"rollback bound", c.Bounds.Rollback},
	} {
		if b.value < 0 {
			return fmt.Errorf("%w: the %s is %s: it must be positive, or zero for the default", ErrInvalid, b.name, b.value)
		}
	}
	return s.dialect.CheckWait(c.Wait)
}

func validConsumer(consumer string) error {
	switch {
	case consumer == "":
		return fmt.Errorf("%w: the consumer is empty", ErrInvalid)
	case len(consumer) > maxConsumer:
		return fmt.Errorf("%w: the consumer %.40q… has %d bytes, at most %d are allowed", ErrInvalid, consumer, len(consumer), maxConsumer)
	case !utf8.ValidString(consumer):
		return fmt.Errorf("%w: the consumer %q is not valid UTF-8", ErrInvalid, consumer)
	}
	for _, r := range consumer {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: the consumer %q has a control character", ErrInvalid, consumer)
		}
	}
	return nil
}

// withDefaults fills what is zero.
func (c Claim) withDefaults() Claim {
	c.Wait = orDefault(c.Wait, DefaultWait)
	c.Bounds.Acquire = orDefault(c.Bounds.Acquire, DefaultAcquire)
	c.Bounds.Commit = orDefault(c.Bounds.Commit, DefaultCommit)
	c.Bounds.Rollback = orDefault(c.Bounds.Rollback, DefaultRollback)
	return c
}

func orDefault(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

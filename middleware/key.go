package once

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
)

// KeyFunc returns what identifies a message for its consumer: the same for
// every delivery of one message, another for every other message. Keys are
// compared byte for byte.
//
// It is called concurrently, before any statement is sent, and must not change
// the message. When it fails, panics or returns an empty or blank key, the
// attempt ends with [ErrNoKey].
type KeyFunc func(msg *message.Message) (string, error)

// UUID is the default key: msg.UUID, which Watermill's own publishers set.
// Messages of other producers may come without one.
func UUID(msg *message.Message) (string, error) { return msg.UUID, nil }

// Metadata takes the key from the metadata field of that name, as a broker's
// header appears there. A message without it has no key. It panics when name is
// empty.
func Metadata(name string) KeyFunc {
	if name == "" {
		panic("once.Metadata: the name is empty")
	}
	return func(msg *message.Message) (string, error) {
		value, ok := msg.Metadata[name]
		if !ok {
			return "", fmt.Errorf("there is no metadata %q", name)
		}
		return value, nil
	}
}

// PayloadHash makes the hexadecimal SHA-256 of the payload the key. It is the
// last resort: two different operations with equal payloads, such as two
// payments of the same sum, are one to it. An empty payload gives no key.
func PayloadHash(msg *message.Message) (string, error) {
	if len(msg.Payload) == 0 {
		return "", errors.New("the payload is empty, so its hash identifies nothing")
	}
	sum := sha256.Sum256(msg.Payload)
	return hex.EncodeToString(sum[:]), nil
}

// Composite joins several keys into one without ambiguity: each part is
// preceded by its length, so that ("ab", "c") and ("a", "bc") stay apart. Every
// part is required. A producer's name beside its id keeps apart two producers
// that make the same ids:
//
//	once.Composite(once.Metadata("producer"), once.UUID)
//
// It panics when a part is nil.
func Composite(first, second KeyFunc, more ...KeyFunc) KeyFunc {
	parts := append([]KeyFunc{first, second}, more...)
	for i, part := range parts {
		if part == nil {
			panic(fmt.Sprintf("once.Composite: part %d is nil", i+1))
		}
	}
	return func(msg *message.Message) (string, error) {
		values := make([]string, len(parts))
		for i, part := range parts {
			value, err := part(msg)
			if err == nil {
				err = checkKey(value)
			}
			if err != nil {
				return "", fmt.Errorf("part %d: %w", i+1, err)
			}
			values[i] = value
		}
		return join(values...), nil
	}
}

// join writes each part behind its length, as netstrings do.
func join(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)))
		b.WriteByte(':')
		b.WriteString(part)
	}
	return b.String()
}

// keyOf calls key and refuses what cannot identify a message.
func keyOf(key KeyFunc, msg *message.Message) (value string, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = "", fmt.Errorf("%w: the key function panicked: %v", ErrNoKey, p)
		}
	}()
	value, err = key(msg)
	if err == nil {
		err = checkKey(value)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	return value, nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("it is empty or blank: the producer sets no id; choose another key in Config.Key or HandlerConfig.Key, such as once.Metadata or once.JSONField")
	case strings.TrimSpace(key) == "":
		return fmt.Errorf("the key %q is blank", brief(key))
	}
	return nil
}

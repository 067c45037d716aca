package once

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// FingerprintFields makes a fingerprint over the chosen fields of a JSON
// payload, for producers whose honest retries carry a sent_at, or order and
// space the fields in another way. Paths are those of [JSONField]; a field may
// hold anything, and one that is absent differs from one that is null.
//
// Numbers are compared as they are spelled: 10 and 10.0 differ.
//
// It panics when no path is given or one has an empty step.
func FingerprintFields(first string, more ...string) FingerprintFunc {
	paths := append([]string{first}, more...)
	steps := make([][]string, len(paths))
	for i, path := range paths {
		steps[i] = mustSteps("FingerprintFields", path)
	}
	return func(msg *message.Message) ([]byte, error) {
		parts := make([]string, 0, 2*len(paths))
		for i, path := range paths {
			value, err := canonical(msg.Payload, steps[i])
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", path, err)
			}
			parts = append(parts, path, value)
		}
		sum := sha256.Sum256([]byte(join(parts...)))
		return sum[:], nil
	}
}

// canonical returns a field's value in one spelling: members sorted, no spaces.
// An absent field is the empty string, which no JSON value is.
func canonical(payload []byte, steps []string) (string, error) {
	raw, err := jsonAt(payload, steps)
	if errors.Is(err, errNoField) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	out, err := json.Marshal(value)
	return string(out), err
}

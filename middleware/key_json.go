package once

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// JSONField takes the key from a field of a JSON payload. The path is the names
// from the outside in, with dots between them ("order.id"), or a JSON Pointer
// when it begins with a slash ("/order/id", RFC 6901), which can also name a
// field with a dot. A number in the path picks an element of an array.
//
// Names are matched exactly; of a name that comes twice the last one counts, as
// in encoding/json. A string is taken as it is, a number as it is spelled, so 1
// and 1.0 are different keys. Anything else is no key, and neither is a string
// with U+FFFD, which stands for bytes that were lost.
//
// It panics when the path is empty or has an empty step.
func JSONField(path string) KeyFunc {
	steps := mustSteps("JSONField", path)
	return func(msg *message.Message) (string, error) {
		raw, err := jsonAt(msg.Payload, steps)
		if err != nil {
			return "", fmt.Errorf("field %q: %w", path, err)
		}
		key, err := jsonKey(raw)
		if err != nil {
			return "", fmt.Errorf("field %q: %w", path, err)
		}
		return key, nil
	}
}

var (
	errNoField = errors.New("the payload does not have it")
	errNotJSON = errors.New("the payload is not JSON in UTF-8")
)

// mustSteps splits a path, or panics in the name of the constructor that was
// given it.
func mustSteps(constructor, path string) []string {
	steps := strings.Split(path, ".")
	if pointer, ok := strings.CutPrefix(path, "/"); ok {
		steps = strings.Split(pointer, "/")
		for i, step := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		}
	}
	for _, step := range steps {
		if step == "" {
			panic(fmt.Sprintf("once.%s: the path %q has an empty step", constructor, path))
		}
	}
	return steps
}

// jsonAt returns the value at the end of the steps. It reads the payload as
// encoding/json does, so that it sees what a handler sees.
func jsonAt(payload []byte, steps []string) (json.RawMessage, error) {
	if !utf8.Valid(payload) || !json.Valid(payload) {
		return nil, errNotJSON
	}
	raw := json.RawMessage(bytes.TrimSpace(payload))
	for _, step := range steps {
		next, err := jsonStep(raw, step)
		if err != nil {
			return nil, err
		}
		raw = next
	}
	return raw, nil
}

func jsonStep(raw json.RawMessage, step string) (json.RawMessage, error) {
	switch raw[0] {
	case '{':
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
		if value, ok := object[step]; ok {
			return value, nil
		}
	case '[':
		var array []json.RawMessage
		if err := json.Unmarshal(raw, &array); err != nil {
			return nil, err
		}
		// Only the plain spelling: "01" and "+1" name no element.
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(array) && strconv.Itoa(i) == step {
			return array[i], nil
		}
	}
	return nil, errNoField
}

// jsonKey returns a scalar as a key.
func jsonKey(raw json.RawMessage) (string, error) {
	switch c := raw[0]; {
	case c == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", err
		}
		if strings.ContainsRune(s, utf8.RuneError) {
			return "", errors.New("it holds U+FFFD, which stands for bytes that were lost: two ids could be one")
		}
		return s, nil
	case c == '-' || c >= '0' && c <= '9':
		return string(raw), nil
	default:
		return "", errors.New("it is neither a string nor a number")
	}
}

package once

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// cloudEventsPrefixes are how the bindings of CloudEvents 1.0 spell an
// attribute in a header: Kafka; HTTP, also as Go writes headers; AMQP, both
// ways.
var cloudEventsPrefixes = [...][2]string{
	{"ce_id", "ce_source"},
	{"ce-id", "ce-source"},
	{"Ce-Id", "Ce-Source"},
	{"cloudEvents:id", "cloudEvents:source"},
	{"cloudEvents_id", "cloudEvents_source"},
}

// CloudEventsID takes the key from a CloudEvent: source and id together, since
// the specification says that only both identify an event. It reads binary mode
// (metadata such as ce_id and ce_source) and, where no such metadata is there,
// structured mode (a JSON payload with id and source). A batch has no key.
func CloudEventsID(msg *message.Message) (string, error) {
	for _, name := range cloudEventsPrefixes {
		if id, ok := msg.Metadata[name[0]]; ok {
			return cloudEventsKey(msg.Metadata[name[1]], id)
		}
	}
	return structured(msg.Payload)
}

// structured finds the key of an event in its JSON format. Names are matched
// exactly, as the specification has them.
func structured(payload []byte) (string, error) {
	if _, err := jsonAt(payload, []string{"specversion"}); err != nil {
		return "", fmt.Errorf("no CloudEvent: there is neither metadata such as ce_id nor a JSON payload with specversion: %w", err)
	}
	source, err := attribute(payload, "source")
	if err != nil {
		return "", err
	}
	id, err := attribute(payload, "id")
	if err != nil {
		return "", err
	}
	return cloudEventsKey(source, id)
}

// attribute reads a string: an id of another type is no CloudEvent's.
func attribute(payload []byte, name string) (string, error) {
	raw, err := jsonAt(payload, []string{name})
	if err != nil || raw[0] != '"' {
		return "", fmt.Errorf("the CloudEvent has no %s, which has to be a string", name)
	}
	return jsonKey(raw)
}

func cloudEventsKey(source, id string) (string, error) {
	if err := checkKey(source); err != nil {
		return "", fmt.Errorf("the CloudEvent's source: %w", err)
	}
	if err := checkKey(id); err != nil {
		return "", fmt.Errorf("the CloudEvent's id: %w", err)
	}
	return join(source, id), nil
}

package oncecqrs

import (
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Handles returns a [once.HandlerConfig].When that is true for messages which
// carry one of the given commands or events, by their names under marshaler:
//
//	once.Config{Handlers: map[string]once.HandlerConfig{
//		"stock": {When: oncecqrs.Handles(marshaler, OrderPlaced{}, OrderCancelled{})},
//	}}
//
// It is for topics that carry several types. A processor answers nil to a type
// that it does not know, if it is a command processor or has AckOnUnknownEvent,
// so the guard commits a claim for a message that nobody handled. That costs a
// transaction, and it lasts: when a later version of the service handles the
// type and the topic is read again, those messages are duplicates. With Handles
// they are acknowledged without a claim.
//
// It decides before the processor is asked, so an event processor without
// AckOnUnknownEvent does not fail any more on a type that is not listed.
//
// Values are only looked at for their names; marshaler has to be safe for
// concurrent use, as processors need it too.
func Handles(marshaler cqrs.CommandEventMarshaler, commandsOrEvents ...any) func(*message.Message) bool {
	names := make(map[string]bool, len(commandsOrEvents))
	for _, v := range commandsOrEvents {
		names[marshaler.Name(v)] = true
	}
	return func(msg *message.Message) bool { return names[marshaler.NameFromMessage(msg)] }
}

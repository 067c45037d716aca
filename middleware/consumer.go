package once

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxConsumer is how many bytes of a consumer's name the store keeps.
const maxConsumer = 255

// consumerName makes "service/handler". The service has no slash, so the first
// one ends it and two different pairs never make one name; the handler's name
// may have some.
func consumerName(service, handler string) (string, error) {
	if err := checkPart("the handler's name", handler); err != nil {
		return "", err
	}
	name := service + "/" + handler
	return name, checkLength(name)
}

// checkConsumer looks at a full name that a user wrote.
func checkConsumer(name string) error {
	const field = "Consumer"
	service, handler, ok := strings.Cut(name, "/")
	if !ok {
		return fmt.Errorf("%s %q has no slash: write the full name, \"service/handler\"", field, name)
	}
	if err := checkPart(field+"'s service", service); err != nil {
		return err
	}
	if err := checkPart(field+"'s handler", handler); err != nil {
		return err
	}
	return checkLength(name)
}

func checkLength(name string) error {
	if len(name) > maxConsumer {
		return fmt.Errorf("the consumer %q has %d bytes, at most %d are kept: shorten it, or set Handlers[…].Consumer", name, len(name), maxConsumer)
	}
	return nil
}

func checkPart(what, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return fmt.Errorf("%s is empty: it names the consumer in every claim, so set it and keep it", what)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q holds control characters or broken UTF-8: use plain text", what, s)
	}
	return nil
}

// consumers remembers which handler and topic each consumer was seen under. Two
// of them under one consumer would each take the other's messages for
// duplicates.
type consumers struct {
	mu   sync.Mutex
	seen map[string]receiver
}

type receiver struct{ handler, topic string }

// take notes r for consumer, or refuses when another receiver has it.
func (c *consumers) take(consumer string, r receiver) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.seen[consumer]
	if ok && first != r {
		return fmt.Errorf("%w: the consumer %q receives as handler %q on topic %q and as handler %q on topic %q, where each would take the other's messages for duplicates: "+
			"give each handler its own name, or a guard of another service", ErrConfig, consumer, first.handler, first.topic, r.handler, r.topic)
	}
	if c.seen == nil {
		c.seen = map[string]receiver{}
	}
	c.seen[consumer] = r
	return nil
}

// free reports whether no handler receives as consumer. It notes nothing: the
// names that are given to [Guard.Do] are not bounded.
func (c *consumers) free(consumer string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.seen[consumer]; ok {
		return fmt.Errorf("%w: the consumer %q is that of handler %q on topic %q: give Do a name of its own", ErrConfig, consumer, r.handler, r.topic)
	}
	return nil
}

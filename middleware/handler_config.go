package once

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/store"
)

// HandlerConfig is what one handler has different from the guard's [Config].
// Zero means what the Config says.
type HandlerConfig struct {
	// Consumer is the full name "service/handler" to claim under, instead of
	// one made from Config.Service and the handler's name. Set it to the old
	// name when a handler or a service is renamed, or else every message is new
	// to it.
	Consumer string

	// Key, Fingerprint, FingerprintPolicy and When are those of [Config].
	Key               KeyFunc
	Fingerprint       FingerprintFunc
	FingerprintPolicy FingerprintPolicy
	When              func(msg *message.Message) bool

	// Wait, Hold and Redelivery are those of [Config]; they differ where
	// handlers listen to different brokers.
	Wait, Hold, Redelivery time.Duration
}

// settings are what holds for one handler, with nothing left to look up.
type settings struct {
	key         KeyFunc
	fingerprint FingerprintFunc // nil: SHA-256 of the payload
	policy      FingerprintPolicy
	when        func(msg *message.Message) bool
	wait        time.Duration
	hold        time.Duration
	redelivery  time.Duration // 0: unknown
}

// budget bounds holding and backing off together, so that the broker does not
// give the message to someone else meanwhile; 0 is unbounded.
func (s *settings) budget() time.Duration { return s.redelivery / 2 }

// settingsOf merges a handler's settings into the guard's, whose defaults are
// filled in.
func settingsOf(c Config, h HandlerConfig) settings {
	s := settings{
		key:         c.Key,
		fingerprint: c.Fingerprint,
		policy:      orValue(h.FingerprintPolicy, c.FingerprintPolicy),
		when:        c.When,
		wait:        orValue(h.Wait, c.Wait),
		hold:        orValue(h.Hold, c.Hold),
		redelivery:  orValue(h.Redelivery, c.Redelivery),
	}
	if h.Key != nil {
		s.key = h.Key
	}
	if h.Fingerprint != nil {
		s.fingerprint = h.Fingerprint
	}
	if h.When != nil {
		s.when = h.When
	}
	if s.hold == 0 {
		s.hold = DefaultHold
		if s.redelivery > 0 {
			s.hold = min(s.hold, s.budget())
		}
	}
	return s
}

// claim is a claim by these settings, but for its key.
func (s *settings) claim(c *Config, consumer string) store.Claim {
	return store.Claim{
		Consumer: consumer,
		Wait:     s.wait,
		Bounds:   store.Bounds{Acquire: c.AcquireWait, Commit: c.Commit, Rollback: c.Rollback},
	}
}

// validateHandlers looks at the settings of single handlers, and at those that
// hold for all others.
func (c Config) validateHandlers() error {
	var p problems
	p.settings("", c, settingsOf(c, HandlerConfig{}))
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		p.handler(c, name, taken)
	}
	return p.err()
}

func (p *problems) handler(c Config, name string, taken map[string]string) {
	h, field := c.Handlers[name], fmt.Sprintf("Handlers[%q].", name)
	p.duration(field+"Wait", h.Wait)
	p.duration(field+"Hold", h.Hold)
	p.duration(field+"Redelivery", h.Redelivery)
	p.policy(field+"FingerprintPolicy", h.FingerprintPolicy)
	p.settings(field, c, settingsOf(c, h))

	consumer, err := c.consumer(name)
	if err != nil {
		p.add("%s%v", field, err)
		return
	}
	if other, ok := taken[consumer]; ok {
		p.add("%sConsumer %q is also the consumer of handler %q: each would take the other's messages for duplicates; give each its own", field, consumer, other)
	}
	taken[consumer] = name
}

func (p *problems) settings(field string, c Config, s settings) {
	if s.redelivery <= 0 {
		return
	}
	const why = "the broker would hand the message to someone else meanwhile"
	if s.hold > s.budget() {
		p.add("%sHold %s is longer than half of Redelivery %s: %s; set at most %s", field, s.hold, s.redelivery, why, s.budget())
	}
	if s.wait >= s.redelivery {
		p.add("%sWait %s is not shorter than Redelivery %s: %s; set a shorter one", field, s.wait, s.redelivery, why)
	}
	if c.Retention <= s.redelivery {
		p.add("Retention %s is not longer than %sRedelivery %s: a redelivery would run the handler again; keep claims for days", c.Retention, field, s.redelivery)
	}
}

// consumer names the consumer of a handler.
func (c Config) consumer(handler string) (string, error) {
	if full := c.Handlers[handler].Consumer; full != "" {
		return full, checkConsumer(full)
	}
	return consumerName(c.Service, handler)
}

// services are those whose consumers the guard's handlers are: its own, and
// those that handlers had before they were renamed.
func (c Config) services() []string {
	services := []string{c.Service}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		service, _, ok := strings.Cut(c.Handlers[name].Consumer, "/")
		if ok && !slices.Contains(services, service) {
			services = append(services, service)
		}
	}
	return services
}

// unknownHandlers returns the names that have settings but are not among known,
// as text for an error.
func (c Config) unknownHandlers(known map[string]message.HandlerFunc) string {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		if _, ok := known[name]; !ok {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	return strings.Join(unknown, ", ")
}

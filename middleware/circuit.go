package once

import "time"

const (
	// circuitFailures in a row close a topic for a while, so that a broker that
	// is away is not asked for each output.
	circuitFailures = 3
	// circuitMax is the longest while, relayBackoffMax the longest wait of one
	// output.
	circuitMax      = time.Minute
	relayBackoffMax = 15 * time.Minute
)

// circuits hold the relay's topics that fail.
type circuits map[string]*circuit

type circuit struct {
	failures int // in a row
	until    time.Time
}

// closedFor is how long nothing is sent to topic; 0: it is open.
func (c circuits) closedFor(topic string) time.Duration {
	if t := c[topic]; t != nil {
		return max(0, time.Until(t.until))
	}
	return 0
}

func (c circuits) sent(topic string) { delete(c, topic) }

// failed notes a failure and returns how long the topic is closed for it.
func (c circuits) failed(topic string, every time.Duration) time.Duration {
	t := c[topic]
	if t == nil {
		t = &circuit{}
		c[topic] = t
	}
	t.failures++
	if t.failures < circuitFailures {
		return 0
	}
	wait := delay(every, max(circuitMax, every), t.failures-circuitFailures+1)
	t.until = time.Now().Add(wait)
	return wait
}

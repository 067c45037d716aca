package once

import "time"

const (
	// circuitFailures in a row make a topic suspect of being away altogether.
	// Then the relay tries only probes outputs before it waits for a while: so
	// that a broker that is away is not asked for each output, and that outputs
	// which cannot be sent do not keep back those behind them for long.
	circuitFailures = 3
	probes          = 25
	circuitMax      = time.Minute
)

// circuit is what the relay knows of a topic that fails. Whatever is sent to
// the topic, by the relay or by an attempt, ends it.
type circuit struct {
	sends    uint64 // to the topic, when it began to fail
	failures int    // in a row
	left     int    // probes
	waits    int    // in a row
	until    time.Time
}

// failed notes a failure and returns how long nothing is tried for it.
func (c *circuit) failed(every time.Duration) time.Duration {
	c.failures++
	switch {
	case c.failures < circuitFailures:
		return 0
	case c.left == 0:
		c.left = probes
	}
	c.left--
	if c.left > 0 {
		return 0
	}
	c.waits++
	wait := delay(every, max(circuitMax, every), c.waits)
	c.until = time.Now().Add(wait)
	return wait
}

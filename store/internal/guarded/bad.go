package guarded

// Bad reports whether the connection will be discarded when it is given back.
func (c *Conn) Bad() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bad
}

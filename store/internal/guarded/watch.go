package guarded

import (
	"context"
	"time"
)

// CutOffAfter is how long a driver may take to notice that a context ended.
const CutOffAfter = 2 * time.Second

// CutOff is for a driver that asks the server to cancel when a context ends,
// and then waits for the answer, for as long as TCP does (lib/pq): its
// connection is closed under it when a call does not return. That is no
// driver's contract, but closing a socket under a reader is, and the choice is
// to wait for a quarter of an hour. A driver that cannot bear it must not be
// given to this.
func (c *Conn) CutOff() { c.deaf = true }

// Within runs a call on the driver connection that CutOff applies to.
func (c *Conn) Within(ctx context.Context, call func() error) error {
	defer c.watch(ctx)()
	return call()
}

// watch cuts the connection off when a call goes on long after ctx ended. The
// call is over when stop returns.
func (c *Conn) watch(ctx context.Context) (stop func()) {
	if !c.deaf || ctx.Done() == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(ended)
		timer := time.NewTimer(CutOffAfter)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
			c.Discard()
			_ = c.raw.Close()
		}
	})
	return func() {
		close(over)
		if !forget() {
			<-ended
		}
	}
}

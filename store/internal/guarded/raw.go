package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
)

// Raw lends the driver connection to fn as one statement of the handler: an
// error dooms, and so does a transaction that is not as it was.
func (c *Conn) Raw(fn func(driver.Conn) error) error {
	return c.drive(context.Background(), statement{}, func() (err error) {
		returned := false
		defer func() {
			if !returned { // a panic or a Goexit goes through; it is the handler's
				err = errors.New("the function given the raw connection did not return")
			}
			if checker, ok := c.session.(Checker); ok && err == nil {
				err = checker.Check()
			}
			c.leave(statement{}, err)
		}()
		err = fn(c.raw)
		returned = true
		return err
	})
}

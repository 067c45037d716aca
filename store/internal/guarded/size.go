package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// weigh refuses what is larger than the server takes.
func (c *Conn) weigh(query string, args []driver.NamedValue) error {
	if c.plain || c.rules.MaxStatement == nil {
		return nil
	}
	size, limit := sizeOf(query, args), c.rules.MaxStatement()
	if limit <= 0 || size <= limit {
		return nil
	}
	return c.fail(fmt.Errorf("%w: %d bytes, the limit is %d (%s)", ErrTooLarge, size, limit, c.rules.MaxStatementName), false)
}

func sizeOf(query string, args []driver.NamedValue) int64 {
	size := int64(len(query))
	for _, a := range args {
		switch v := a.Value.(type) {
		case []byte:
			size += int64(len(v))
		case string:
			size += int64(len(v))
		default:
			size += 16
		}
	}
	return size
}

// explain says what the driver's error does not: that the statement's own
// context ended (some drivers report only what the server said to their cancel
// request), or that the statement was larger than the server takes once the
// driver had written its arguments out, for which a server hangs up.
func (c *Conn) explain(ctx context.Context, err error, query string, args []driver.NamedValue) error {
	if err == nil || ctx.Err() != nil || c.rules.MaxStatement == nil {
		return because(ctx, err)
	}
	said := c.rules.TooLarge != nil && c.rules.TooLarge(err)
	if limit := c.rules.MaxStatement(); said || limit > 0 && c.died(err) && writtenOut(query, args) > limit {
		return fmt.Errorf("%w: with its arguments written out it has %d bytes, the limit is %d (%s): %w",
			ErrTooLarge, writtenOut(query, args), limit, c.rules.MaxStatementName, err)
	}
	return err
}

// died reports whether the driver gave its connection up.
func (c *Conn) died(err error) bool {
	v, ok := c.raw.(driver.Validator)
	return ok && !v.IsValid() || errors.Is(err, driver.ErrBadConn)
}

// writtenOut is the size of a statement into which the driver has written its
// arguments as literals, with a backslash before what needs one.
func writtenOut(query string, args []driver.NamedValue) int64 {
	size := sizeOf(query, args)
	for _, a := range args {
		switch v := a.Value.(type) {
		case []byte:
			size += escapes(v)
		case string:
			size += escapes(v)
		}
	}
	return size
}

func escapes[T []byte | string](text T) (n int64) {
	for i := range len(text) {
		switch text[i] {
		case 0, '\n', '\r', 0x1a, '\'', '"', '\\':
			n++
		}
	}
	return n
}

// because makes the end of the statement's own context visible in err: some
// drivers report only what the server said to their cancel request.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

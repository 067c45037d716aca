package store

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

type rawKey struct{}

// ErrNoRaw: there is no driver connection to lend: the context is not inside
// an attempt, or the store was made with [Direct].
var ErrNoRaw = errors.New("no driver connection in this context")

// Raw lends fn the driver connection of the attempt in ctx, for what
// database/sql cannot say (COPY, batches). It counts as one statement of the
// handler: an error of fn dooms the transaction, and so does leaving the
// connection outside of it. fn must not keep the connection, and must not end
// the transaction. The packages below offer it with the driver's own type.
func Raw(ctx context.Context, fn func(driver.Conn) error) error {
	c, ok := ctx.Value(rawKey{}).(*guarded.Conn)
	if !ok {
		return ErrNoRaw
	}
	return c.Raw(fn)
}

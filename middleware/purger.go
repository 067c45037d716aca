package once

import (
	"context"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

// purge deletes old claims once. What goes wrong is an event: the next run
// tries again, and one that looks suspicious needs a person.
func (g *Guard) purge(ctx context.Context) {
	began := time.Now()
	deleted, err := g.store.Purge(ctx, store.Purge{Retention: g.config.Retention, Batch: g.config.PurgeBatch})
	if ctx.Err() != nil {
		err = nil // it was told to stop
	}
	g.observe(context.WithoutCancel(ctx), Purged{Deleted: deleted, Took: time.Since(began), Err: err})
}

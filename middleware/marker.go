package once

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/watermill-once/watermill-once/store"
)

const (
	// markEvery is how often sent outputs are marked. Until then a crash makes
	// the relay send them again, once they are as old as Config.RelayAge.
	markEvery = time.Second
	// markBatch is how many are marked at once without waiting for that.
	markBatch = 100
	// maxUnmarked bounds what is remembered while the store cannot be asked.
	// What is not is sent again.
	maxUnmarked = 100_000
)

// sentOutputs are outputs that this process sent and has not marked yet. To
// mark each by itself would cost a transaction a message.
type sentOutputs struct {
	many chan struct{} // tells of a batch
	mu   sync.Mutex
	ids  map[store.OutputID]struct{}
	away bool // the store was, so its next turn comes by time
}

func newSentOutputs() sentOutputs {
	return sentOutputs{many: make(chan struct{}, 1), ids: map[store.OutputID]struct{}{}}
}

func (s *sentOutputs) add(ids ...store.OutputID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if len(s.ids) < maxUnmarked {
			s.ids[id] = struct{}{}
		}
	}
	if len(s.ids) >= markBatch && !s.away {
		select {
		case s.many <- struct{}{}:
		default:
		}
	}
}

func (s *sentOutputs) has(id store.OutputID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

func (s *sentOutputs) list() []store.OutputID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.ids))
}

// marked notes how marking went.
func (s *sentOutputs) marked(ids []store.OutputID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away = err != nil; s.away {
		return
	}
	for _, id := range ids {
		delete(s.ids, id)
	}
}

// mark deletes what was sent. When it fails the next run tries again.
func (g *Guard) mark(ctx context.Context) {
	if err := g.markSent(ctx); err != nil && ctx.Err() == nil {
		g.observe(ctx, MarkFailed{Waiting: len(g.sent.list()), Err: err})
	}
}

func (g *Guard) markSent(ctx context.Context) error {
	ids := g.sent.list()
	if len(ids) == 0 {
		return nil
	}
	err := g.store.MarkSent(ctx, ids...)
	g.sent.marked(ids, err)
	return err
}

// markLast marks what the last attempts sent.
func (g *Guard) markLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, g.config.Commit)
	defer cancel()
	if err := g.markSent(ctx); err != nil {
		g.observe(ctx, MarkFailed{Waiting: len(g.sent.list()), Err: err})
	}
}

package once

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// worker is a goroutine of the guard's own. It ends when the guard's root
// context does, and closes done.
type worker struct {
	name string
	done chan struct{}
}

// startWorkers is called once, under the guard's lock; Close waits for them.
func (g *Guard) startWorkers() {
	g.startWorker("purger", g.config.PurgeEvery, nil, g.purge)
	g.startWorker("relay", g.config.RelayEvery, nil, newRelay(g).drain)
	g.startWorker("marker", markEvery, g.sent.many, g.mark)
}

// startWorker calls work every so often, spread by ±50 % so that replicas do
// not work in step, and when it is woken. A negative pause: never.
func (g *Guard) startWorker(name string, every time.Duration, wake <-chan struct{}, work func(ctx context.Context)) {
	if every < 0 {
		return
	}
	w := worker{name: name, done: make(chan struct{})}
	g.workers = append(g.workers, w)
	go func() {
		defer close(w.done)
		for {
			pause(g.root, jitter(every), wake)
			if g.root.Err() != nil {
				return
			}
			work(g.root)
		}
	}()
}

// joinWorkers waits for the workers, which were told to stop when Close began.
func (g *Guard) joinWorkers(ctx context.Context) error {
	grace, cancel := context.WithTimeout(ctx, g.config.Rollback)
	defer cancel()
	var left []string
	for _, w := range g.workers {
		if !ended(grace, w.done) {
			left = append(left, w.name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("the %s has not ended: the store or a publisher does not return", strings.Join(left, " and the "))
}

// ended prefers a yes to the end of ctx.
func ended(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

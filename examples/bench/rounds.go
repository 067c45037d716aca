package main

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// work handles one message, known by its id, as the given worker.
type work func(ctx context.Context, id string, worker int) error

// timed runs f for every id in inFlight workers and returns the time for one
// message.
func timed(ctx context.Context, f work, ids []string, inFlight int) (time.Duration, error) {
	var wg sync.WaitGroup
	errs := make([]error, inFlight)
	began := time.Now()
	for w := range inFlight {
		wg.Go(func() {
			for i := w; i < len(ids) && errs[w] == nil; i += inFlight {
				errs[w] = f(ctx, ids[i], w)
			}
		})
	}
	wg.Wait()
	took := time.Since(began) / time.Duration(len(ids))
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, ctx.Err()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func round(f float64) float64 { return math.Round(f*1000) / 1000 }

package store

import (
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

func TestOutputIDsNeverRepeat(t *testing.T) {
	t.Parallel()
	var ids outputIDs
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const workers, each, n = 8, 200, 7
	var mu sync.Mutex
	seen := map[OutputID]bool{}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				first := ids.take(n, now) // the clock stands still
				mu.Lock()
				for i := range OutputID(n) {
					if seen[first+i] || first <= 0 {
						t.Errorf("id %d", first+i)
					}
					seen[first+i] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != workers*each*n {
		t.Errorf("%d ids", len(seen))
	}
}

func TestOutputIDsFollowTime(t *testing.T) {
	t.Parallel()
	last := OutputID(0)
	for _, year := range []int{2026, 2027, 2050, 2095} {
		var ids outputIDs // another process
		id := ids.take(1, time.Date(year, 2, 1, 0, 0, 0, 0, time.UTC))
		if id <= last {
			t.Errorf("in %d the id is %d, behind %d", year, id, last)
		}
		last = id
	}
	for _, odd := range []time.Time{{}, time.Unix(0, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)} {
		var ids outputIDs
		if id := ids.take(1, odd); id <= 0 {
			t.Errorf("at %s the id is %d", odd, id)
		}
	}
	var ids outputIDs // a clock that goes back
	first := ids.take(3, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	if second := ids.take(1, time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)); second != first+3 {
		t.Errorf("%d behind %d", second, first)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	b := &Batch{Outputs: make([]Output, 6)}
	sizes := []int64{5, 5, 20, 1, 1, 9}
	var ends []int
	for from := 0; from < len(sizes); {
		from = b.Fit(from, 2, 10, func(i int) int64 { return sizes[i] })
		ends = append(ends, from)
	}
	if want := []int{2, 3, 5, 6}; len(ends) != len(want) || ends[0] != 2 || ends[1] != 3 || ends[2] != 5 || ends[3] != 6 {
		t.Errorf("cut at %v, want %v", ends, want)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("plain")
	f.Add(strings.Repeat("ж", 2000) + "\x00\xff")
	f.Add("x" + strings.Repeat("🙂", 500))
	f.Fuzz(func(t *testing.T, reason string) {
		got := clip(reason)
		if len(got) > maxReason || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Errorf("%q is cut to %q", reason, got)
		}
		if again := clip(got); again != got {
			t.Errorf("%q is cut again, to %q", got, again)
		}
	})
}

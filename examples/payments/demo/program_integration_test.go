//go:build integration

package main

import "testing"

// On a real broker nobody delivers again but the broker itself. A server that
// is missing is exit status 2, so it fails the test.
func TestDemoOnServers(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"postgres", "mariadb"} {
		t.Run("kafka "+store, func(t *testing.T) {
			t.Parallel()
			out := wantDemo(t, "-broker=kafka", "-store="+store, "-messages=100", "-kills=2")
			if none := rowOf(t, out, byNothing); none.doubled == 0 || none.receipts.doubled == 0 {
				t.Errorf("no dedup has doubled no transfer or no receipt:\n%s", out)
			}
			if theirs := rowOf(t, out, byDeduplicator); theirs.lost == 0 || theirs.receipts.lost == 0 {
				t.Errorf("Watermill's Deduplicator has lost no transfer or no receipt:\n%s", out)
			}
		})
		t.Run("gochannel "+store, func(t *testing.T) {
			t.Parallel()
			wantDemo(t, "-broker=gochannel", "-store="+store, "-messages=80", "-kills=2")
		})
	}
}

//go:build integration

package forwarder

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/watermill-once/watermill-once/store/storetest"
)

// The figures of doc.go: round trips that an attempt takes, and how long until
// its message is out. The times are only shown. Not parallel, for their sake.
func TestFigures(t *testing.T) {
	want := map[string]int{
		"postgres/stored outputs": 3, "postgres/forwarder": 4,
		"mariadb/stored outputs": 4, "mariadb/forwarder": 6,
	}
	for _, d := range databases() {
		for _, w := range ways() {
			t.Run(d.name+"/"+w.name, func(t *testing.T) {
				s, wire := d.fresh(t)
				out, g := newFar(), newGuard(t, s, -1)
				bring := serve(t, g, Handler(w.publish(d, g, out)))
				bring("warm")
				trips := 1 << 30
				for i := range 5 { // the guard marks what was sent now and then
					wire.Reset()
					bring(fmt.Sprint("measured ", i))
					trips = min(trips, wire.RoundTrips())
				}
				if trips != want[d.name+"/"+w.name] {
					t.Errorf("%d round trips, want %d: %q", trips, want[d.name+"/"+w.name], storetest.Texts(wire.Ran()))
				}
				if w.run != nil {
					w.run(t, d, s, out)
				}
				storetest.Eventually(t, patience, "the first ones", func() error { return out.same(s.DB()) })
				<-out.came
				var took []time.Duration
				for i := range 15 {
					began := time.Now()
					bring(fmt.Sprint(i))
					<-out.came
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				t.Logf("%d round trips an order; its message is out after %v, at most %v",
					trips, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
			})
		}
	}
}

// While the broker is slow the forwarder keeps its transaction open. On
// PostgreSQL nobody minds; on MariaDB its serializable read locks the end of the
// table, where the next handler wants to insert.
func TestForwarder_HandlersWaitForItOnMariaDB(t *testing.T) {
	t.Parallel()
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s, _ := d.fresh(t)
			out, g := newFar(), newGuard(t, s, -1)
			out.hold = make(chan struct{})
			release := out.hold
			bring := serve(t, g, Handler(Forward(d.dialect)))
			runDaemon(t, d, s, out)
			bring("1")
			<-out.held
			done := make(chan struct{})
			go func() {
				defer close(done)
				bring("2")
			}()
			if d.name == "mariadb" {
				storetest.Eventually(t, patience, "the second order waits", func() error {
					var n int
					err := s.DB().Get(&n, `SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE 'INSERT INTO %outbox%'`)
					if err == nil && n == 0 {
						err = errors.New("nobody waits")
					}
					return err
				})
			} else {
				<-done
			}
			close(release)
			<-done
			storetest.Eventually(t, patience, "every order is told of", func() error { return out.same(s.DB()) })
		})
	}
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// limitScenarios: limits that an attempt meets, of the server, of the pool and
// of the network.
func limitScenarios() []scenario {
	return []scenario{
		{name: "B38 handlers that need the pool while they have all of it", on: manyWriters, run: poolOfHandlers},
		{name: "B39 the server ends a session that is idle in its transaction", on: killable, run: idleTooLong},
		{name: "C08 a statement that grows too large when it is written out", on: both(onMySQL, unless(isDirect)), run: growsTooLarge},
		{name: "C09 a claim that the server refuses because it only reads", on: codes, run: claimRefusedAsReadOnly},
		{name: "C09 a handler that makes its own transaction read only", on: onPostgres, run: readsOnlyByItself},
		{name: "C10 a server that says nothing, at the handler's statement", on: both(wired, unless(both(isDirect, onLibpq))), run: silentStatement},
	}
}

// poolOfHandlers: every connection is a handler's, and every handler waits for
// one more.
func poolOfHandlers(t testing.TB, h Harness) {
	const n = 2
	p := open(t, h, n)
	if err := p.s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	inside, full := make(chan struct{}), make(chan struct{})
	starved, feed := context.WithCancel(t.Context())
	waits := func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if err := addEffect(ctx, tx, "leaked"); err != nil {
			return nil, err
		}
		inside <- struct{}{}
		<-full
		_, err := p.s.DB().ExecContext(starved, "SELECT 1")
		return nil, err
	}
	var all []*attempt
	for i := range n {
		all = append(all, start(t, p.s, t.Context(), p.patient(fmt.Sprint(i)), waits))
	}
	for range n {
		<-inside
	}
	close(full)
	// No place for another attempt either: it must not wait for ever.
	c := p.patient("late")
	c.Bounds.Acquire = 100 * time.Millisecond
	_, err := p.s.Do(t.Context(), c, p.never)
	fails(t, err, store.ErrUnavailable, store.ClassTransient)
	feed() // the handlers' own patience is over
	for _, a := range all {
		_, err := a.await(t)
		fails(t, err, context.Canceled, store.ClassHandler)
	}
	p.holds(0, 0)
	for i := range n {
		r, err := p.do(p.patient(fmt.Sprint(i)))
		isNew(t, r, err)
	}
	PoolIdle(t, p.s.DB().DB)
}

// idleTooLong: the handler does something else for longer than the server
// lets a transaction be idle.
func idleTooLong(t testing.TB, h Harness) {
	p := open(t, h, 1)
	limit, there := "SET LOCAL idle_in_transaction_session_timeout = '200ms'", "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ?"
	if h.Dialect == "mysql" {
		limit, there = "SET idle_transaction_timeout = 1", "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?"
	}
	for _, writes := range []bool{true, false} {
		_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := addEffect(ctx, tx, "lost"); err != nil {
				return err
			}
			var id int64
			if err := tx.GetContext(ctx, &id, h.ConnectionID); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, limit); err != nil {
				return err
			}
			Eventually(t, 0, "the server ends the session", func() error {
				if n := p.number(there, id); n > 0 {
					return errors.New("it is still there")
				}
				return nil
			})
			if writes {
				_ = addEffect(ctx, tx, "leaked")
			}
			return nil
		})
		if err == nil || store.ClassOf(err) != store.ClassTransient {
			t.Errorf("writes %v: want a transient error, got %v", writes, err)
		}
		p.holds(0, 0)
	}
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

// growsTooLarge: an argument that fits until the driver writes it out into the
// statement, with a backslash for every quote.
func growsTooLarge(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.exec("CREATE TABLE large (b LONGBLOB)")
	var limit int
	if err := p.view().Get(&limit, "SELECT @@max_allowed_packet"); err != nil {
		t.Fatal(err)
	}
	quotes := []byte(strings.Repeat("'", limit*3/5))
	_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO large VALUES (?)", quotes)
		return err
	})
	if err != nil { // where it was written out
		fails(t, err, store.ErrTooLarge, store.ClassPermanent)
		p.holds(0, 0)
	}
	r, err := p.do(p.patient("other"))
	isNew(t, r, err)
	PoolIdle(t, p.s.DB().DB)
}

// refusesToWrite are the codes of servers that only read.
var refusesToWrite = map[string][]string{"postgres": {"25006"}, "mysql": {"1290", "1792", "1836"}}

func claimRefusedAsReadOnly(t testing.TB, h Harness) {
	p := open(t, h, 2)
	for _, code := range refusesToWrite[h.Dialect] {
		stub := &Stub{}
		s := h.Stub(t, p.s, 1, stub)
		stub.Tell(Lie{About: "once_claims", Answer: Failing(h.Fault(code)), Times: 1})
		_, err := s.Do(t.Context(), p.patient(code), p.never)
		fails(t, err, store.ErrReadOnly, store.ClassTransient)
		r, err := s.Do(t.Context(), p.patient(code), effect(code))
		isNew(t, r, err)
	}
}

// readsOnlyByItself is the handler's fault, not a fail-over.
func readsOnlyByItself(t testing.TB, h Harness) {
	p := open(t, h, 1)
	_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "SET TRANSACTION READ ONLY"); err != nil {
			return err
		}
		return addEffect(ctx, tx, "key")
	})
	if err == nil || store.ClassOf(err) != store.ClassHandler || errors.Is(err, store.ErrReadOnly) {
		t.Errorf("want the handler's own error, got %v's: %v", store.ClassOf(err), err)
	}
	r, err := p.do(p.patient("key"))
	isNew(t, r, err)
	p.holds(1, 1)
}

func silentStatement(t testing.TB, h Harness) {
	p, w := wiredPlace(t, h, 1)
	w.BlackHole(Running("INSERT INTO effects"))
	began := time.Now()
	_, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := tx.ExecContext(short, "INSERT INTO effects (name) VALUES ('lost')")
		return err
	})
	if took := time.Since(began); took > 300*time.Millisecond+2*margin {
		t.Errorf("it took %s", took)
	}
	fails(t, err, context.DeadlineExceeded, store.ClassHandler)
	if n := p.s.DB().Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	w.Disarm()
	w.CutAll()
	Eventually(t, 0, "the redelivery is processed", func() error {
		_, err := p.do(p.patient("key"))
		return err
	})
	p.holds(1, 1)
	PoolIdle(t, p.s.DB().DB)
}

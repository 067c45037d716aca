package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

const (
	consumer = "billing/charge"
	// margin is how much later than its bound something may end here, on a
	// machine that does other things too.
	margin = 3 * time.Second
)

// place is one scenario's database: a migrated store, with a table of effects
// beside it.
type place struct {
	testing.TB
	h Harness
	s *store.SQL

	once   sync.Once
	viewer *sqlx.DB
}

// open makes a place whose store has a pool of at most pool connections.
func open(t testing.TB, h Harness, pool int, opts ...store.Option) *place {
	t.Helper()
	return settle(t, h, h.Open(t, pool, opts...))
}

// settle migrates a store and makes a place of it. At the end its pool must be
// idle.
func settle(t testing.TB, h Harness, s *store.SQL) *place {
	t.Helper()
	t.Cleanup(func() {
		Eventually(t, 0, "the pool is idle", func() error {
			if n := s.DB().Stats().InUse; n > 0 {
				return fmt.Errorf("%d connections are in use", n)
			}
			return nil
		})
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	p := &place{TB: t, h: h, s: s}
	p.exec("CREATE TABLE effects (name VARCHAR(200), n BIGINT)")
	return p
}

// exec runs a statement that must succeed.
func (p *place) exec(query string, args ...any) {
	p.Helper()
	if _, err := p.s.DB().ExecContext(p.Context(), p.s.DB().Rebind(query), args...); err != nil {
		p.Fatalf("%s: %v", query, err)
	}
}

// again is another store on the place's database.
func (p *place) again(pool int, opts ...store.Option) *store.SQL {
	p.Helper()
	return p.h.Again(p, p.s, pool, opts...)
}

// view is a pool of its own to look at the database, so that looking does not
// wait for a connection that a handler holds.
func (p *place) view() *sqlx.DB {
	p.Helper()
	p.once.Do(func() { p.viewer = p.again(2).DB() })
	return p.viewer
}

// number reads one number.
func (p *place) number(query string, args ...any) (n int) {
	p.Helper()
	if err := p.view().GetContext(p.Context(), &n, p.view().Rebind(query), args...); err != nil {
		p.Fatalf("%s: %v", query, err)
	}
	return n
}

// holds fails unless there are so many claims and effects, as others see them.
func (p *place) holds(claims, effects int) {
	p.Helper()
	if c, e := p.number("SELECT COUNT(*) FROM once_claims"), p.number("SELECT COUNT(*) FROM effects"); c != claims || e != effects {
		p.Errorf("there are %d claims and %d effects, want %d and %d", c, e, claims, effects)
	}
}

// claim is a claim that waits as shortly as the database can.
func (p *place) claim(key string) store.Claim {
	return store.Claim{Consumer: consumer, Key: key, Wait: p.h.wait()}
}

// patient is a claim with the default wait.
func (p *place) patient(key string) store.Claim { return store.Claim{Consumer: consumer, Key: key} }

// wait is a short claim wait.
func (h Harness) wait() time.Duration { return max(h.MinWait, 200*time.Millisecond) }

// do runs one attempt that writes one effect under the key's name.
func (p *place) do(c store.Claim) (store.Result, error) {
	p.Helper()
	return p.s.Do(p.Context(), c, effect(c.Key))
}

// effect is a handler that writes one row.
func effect(name string) store.Func {
	return func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		return nil, addEffect(ctx, tx, name)
	}
}

func addEffect(ctx context.Context, tx *sqlx.Tx, name string) error {
	_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO effects (name, n) VALUES (?, 1)"), name)
	return err
}

// never is a handler that must not run.
func (p *place) never(context.Context, *sqlx.Tx) ([]store.Output, error) {
	p.Errorf("the handler ran")
	return nil, errors.New("must not run")
}

// isNew fails unless an attempt ran and committed.
func isNew(t testing.TB, r store.Result, err error) {
	t.Helper()
	if err != nil || r.Duplicate {
		t.Errorf("want a first attempt that commits, got %+v and %v", r, err)
	}
}

// isDuplicate fails unless an attempt was a duplicate.
func isDuplicate(t testing.TB, r store.Result, err error) {
	t.Helper()
	if err != nil || !r.Duplicate {
		t.Errorf("want a duplicate, got %+v and %v", r, err)
	}
}

// fails wants err to be want, and of a class.
func fails(t testing.TB, err, want error, class store.Class) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("want an error that is %q, got %v", want, err)
	}
	if got := store.ClassOf(err); err != nil && got != class {
		t.Errorf("the error is %v's, want %v: %v", got, class, err)
	}
}

// attempt is one that runs in the background.
type attempt struct {
	t      testing.TB
	ended  chan struct{}
	result store.Result
	err    error
}

// start runs an attempt in the background. It ends before the test does.
func start(t testing.TB, s store.Store, ctx context.Context, c store.Claim, fn store.Func) *attempt { //nolint:revive // t first, as in every helper here
	t.Helper()
	a := &attempt{t: t, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.result, a.err = s.Do(ctx, c, fn)
	}()
	t.Cleanup(func() { a.await(t) })
	return a
}

// await waits for the end and returns how it was.
func (a *attempt) await(t testing.TB) (store.Result, error) {
	t.Helper()
	select {
	case <-a.ended:
		return a.result, a.err
	case <-time.After(time.Minute):
		t.Errorf("an attempt did not end within a minute")
		runtime.Goexit()
		return store.Result{}, nil
	}
}

// holder is a handler that stands still in the middle.
type holder struct {
	*attempt
	inside chan struct{}
	finish chan error
}

// hold starts an attempt whose handler writes an effect and then waits for
// release, and returns once it waits.
func (p *place) hold(s store.Store, c store.Claim) *holder {
	p.Helper()
	h := &holder{inside: make(chan struct{}), finish: make(chan error, 1)}
	h.attempt = start(p, s, p.Context(), c, func(ctx context.Context, tx *sqlx.Tx) ([]store.Output, error) {
		if err := addEffect(ctx, tx, "holder"); err != nil {
			return nil, err
		}
		close(h.inside)
		select {
		case err := <-h.finish:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	select {
	case <-h.inside:
	case <-h.ended:
		p.Fatalf("the holder did not get to its handler: %+v, %v", h.result, h.err)
	}
	p.Cleanup(func() { h.release(nil) })
	return h
}

// release lets the handler return err, and waits for the end of the attempt.
func (h *holder) release(err error) (store.Result, error) {
	select {
	case h.finish <- err:
	default:
	}
	return h.await(h.t)
}

// crowd runs f n times at once and waits for all.
func crowd(n int, f func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	all.Wait()
}

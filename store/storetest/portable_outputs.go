package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// portableOutputs are the portable scenarios of outputs.
func portableOutputs() []portable {
	return []portable{
		{name: "outputs are stored with the claim, and marked as sent", run: storedAndMarked},
		{name: "B12 outputs of a failed attempt are nowhere", run: failedKeepsNoOutputs},
		{name: "an output without a topic is refused", run: topicRequired},
		{name: "a lease hands outputs out once, until it is over", run: leasedOnce},
		{name: "an output that was given up on is not handed out", run: deadNotHandedOut},
	}
}

func returning(outputs ...store.Output) store.Func {
	return func(context.Context, *sqlx.Tx) ([]store.Output, error) { return outputs, nil }
}

// left are the outputs that a duplicate of a message has.
func left(t testing.TB, s store.Store, key string) []store.Output {
	t.Helper()
	c := portableClaim(key)
	c.Outputs = true
	r, err := s.Do(t.Context(), c, mustNotRun(t))
	isDuplicate(t, r, err)
	return r.Unsent
}

func storedAndMarked(t testing.TB, s store.Store, _ time.Duration) {
	all := append(made(3),
		store.Output{UUID: "uuid 0", Topic: "t", Metadata: map[string]string{}, Payload: []byte{}},
		store.Output{UUID: "\x00\xff", Topic: "t", Metadata: map[string]string{"\x00": "\xff"}})
	r, err := s.Do(t.Context(), portableClaim("m1"), returning(all...))
	isNew(t, r, err)
	alike(t, r.Unsent, all)
	got := left(t, s, "m1")
	alike(t, got, all)
	if err := s.MarkSent(t.Context(), got[0].ID, got[2].ID, got[3].ID); err != nil {
		t.Fatal(err)
	}
	alike(t, left(t, s, "m1"), []store.Output{all[1], all[4]})
	for range 2 { // what is gone is no error
		if err := s.MarkSent(t.Context(), idsOf(got)...); err != nil {
			t.Fatal(err)
		}
		alike(t, left(t, s, "m1"), nil)
	}
}

func failedKeepsNoOutputs(t testing.TB, s store.Store, _ time.Duration) {
	boom := errors.New("boom")
	_, err := s.Do(t.Context(), portableClaim("m1"), func(context.Context, *sqlx.Tx) ([]store.Output, error) {
		return made(2), boom
	})
	fails(t, err, boom, store.ClassHandler)
	got, err := s.LeaseUnsent(t.Context(), store.Lease{For: time.Minute})
	if err != nil || len(got) > 0 {
		t.Errorf("%d are handed out: %v", len(got), err)
	}
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
	alike(t, left(t, s, "m1"), nil)
}

func topicRequired(t testing.TB, s store.Store, _ time.Duration) {
	_, err := s.Do(t.Context(), portableClaim("m1"), returning(store.Output{UUID: "u", Payload: []byte("p")}))
	fails(t, err, store.ErrInvalid, store.ClassPermanent)
	runs := 0
	r, err := s.Do(t.Context(), portableClaim("m1"), nothing(&runs))
	isNew(t, r, err)
}

func leasedOnce(t testing.TB, s store.Store, _ time.Duration) {
	all := made(5)
	for i, o := range all {
		r, err := s.Do(t.Context(), portableClaim(string(rune('a'+i))), returning(o))
		isNew(t, r, err)
	}
	lease := func(l store.Lease) []store.Output {
		t.Helper()
		got, err := s.LeaseUnsent(t.Context(), l)
		if err != nil {
			t.Errorf("%+v: %v", l, err)
		}
		return got
	}
	_, err := s.LeaseUnsent(t.Context(), store.Lease{})
	fails(t, err, store.ErrInvalid, store.ClassPermanent)
	if got := lease(store.Lease{For: time.Minute, Older: time.Hour}); len(got) > 0 {
		t.Errorf("%d are handed out that are too young", len(got))
	}
	alike(t, lease(store.Lease{For: time.Minute, Limit: 2}), all[:2])
	rest := lease(store.Lease{For: time.Millisecond})
	alike(t, rest, all[2:])
	Eventually(t, 0, "the lease is over", func() error {
		if got := lease(store.Lease{For: time.Minute}); len(got) != len(rest) {
			return errors.New("it is not")
		}
		return nil
	})
	if got := lease(store.Lease{For: time.Minute}); len(got) > 0 {
		t.Errorf("%d are handed out twice", len(got))
	}
	if err := s.Postpone(t.Context(), store.Failure{ID: rest[1].ID, Counted: true, Reason: "no broker"}); err != nil {
		t.Fatal(err)
	}
	got := lease(store.Lease{For: time.Minute})
	alike(t, got, all[3:4])
	if len(got) == 1 && got[0].Attempts != 1 {
		t.Errorf("%d attempts are counted, want 1", got[0].Attempts)
	}
}

func deadNotHandedOut(t testing.TB, s store.Store, _ time.Duration) {
	all := made(2)
	r, err := s.Do(t.Context(), portableClaim("m1"), returning(all...))
	isNew(t, r, err)
	if err := s.Postpone(t.Context(), store.Failure{ID: r.Unsent[0].ID, Dead: true, Reason: "never"}); err != nil {
		t.Fatal(err)
	}
	alike(t, left(t, s, "m1"), all[1:])
	got, err := s.LeaseUnsent(t.Context(), store.Lease{For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	alike(t, got, all[1:])
}

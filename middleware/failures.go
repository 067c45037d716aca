package once

import (
	"container/list"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// failures counts how often in a row each message failed, for the back-off. It
// remembers a bounded number and forgets the one that failed longest ago. It
// keeps hashes, not keys, which may be large; two messages with one hash would
// only share their back-off.
type failures struct {
	most int
	seed maphash.Seed
	n    atomic.Int64 // len(byKey), so that success costs nothing while nothing fails

	mu     sync.Mutex
	byKey  map[uint64]*list.Element
	recent *list.List // of *failure, the latest first
}

type failure struct {
	key   uint64
	count int
}

func newFailures(most int) *failures {
	return &failures{most: most, seed: maphash.MakeSeed(), byKey: map[uint64]*list.Element{}, recent: list.New()}
}

// add counts a failure and returns how many it makes.
func (f *failures) add(key uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	element, ok := f.byKey[key]
	if !ok {
		f.evict()
		element = f.recent.PushFront(&failure{key: key})
		f.byKey[key] = element
		f.n.Store(int64(len(f.byKey)))
	}
	f.recent.MoveToFront(element)
	entry := element.Value.(*failure)
	entry.count++
	return entry.count
}

func (f *failures) evict() {
	if len(f.byKey) < f.most {
		return
	}
	last := f.recent.Back()
	delete(f.byKey, last.Value.(*failure).key)
	f.recent.Remove(last)
}

func (f *failures) forget(key uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if element, ok := f.byKey[key]; ok {
		delete(f.byKey, key)
		f.recent.Remove(element)
		f.n.Store(int64(len(f.byKey)))
	}
}

// failureKey names the message for the back-off: by its key, or by its content
// when it has none, so that one bad message does not slow down another.
func (a *attempt) failureKey() uint64 {
	seed := a.guard.failures.seed
	name := struct {
		consumer, key, uuid string
		payload             uint64
	}{consumer: a.about.Consumer, key: a.about.Key}
	if name.key == "" && a.msg != nil {
		name.uuid, name.payload = a.msg.UUID, maphash.Bytes(seed, a.msg.Payload)
	}
	return maphash.Comparable(seed, name)
}

// succeeded forgets the message's failures.
func (a *attempt) succeeded() {
	if f := a.guard.failures; f.n.Load() > 0 {
		f.forget(a.failureKey())
	}
}

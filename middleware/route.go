package once

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

// route is a publisher that the guard knows.
type route struct {
	pub    message.Publisher
	routes *routes
	sends  atomic.Uint64 // messages sent through it: it is not down altogether
}

// publish sends and remembers where messages of a topic go.
func (r *route) publish(topic string, messages ...*message.Message) error {
	if err := r.pub.Publish(topic, messages...); err != nil {
		return err
	}
	r.sends.Add(1)
	r.routes.learn(topic, r)
	return nil
}

// routes tell which publisher sends what, when nobody is there to ask: for a
// duplicate, and for the relay.
type routes struct {
	mu      sync.Mutex
	known   []*route
	given   map[string]*route // by Guard.Relay
	rest    *route            // by Guard.Relay, for all other topics
	learned map[string]lane   // by what was sent
}

// lane is a topic on its route.
type lane struct {
	route *route
	sends uint64 // messages of the topic
}

// learnedTopics bounds what is learned; topics may be made up from data, such
// as one for each reply.
const learnedTopics = 1000

// add returns the route of a publisher, one for each.
func (r *routes) add(pub message.Publisher) *route {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reflect.ValueOf(pub).Comparable() {
		for _, k := range r.known {
			if reflect.ValueOf(k.pub).Comparable() && k.pub == pub {
				return k
			}
		}
	}
	k := &route{pub: pub, routes: r}
	r.known = append(r.known, k)
	return k
}

// give makes k the route of topics, or of all that have none.
func (r *routes) give(k *route, topics []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(topics) == 0 {
		r.rest = k
		return
	}
	if r.given == nil {
		r.given = map[string]*route{}
	}
	for _, topic := range topics {
		r.given[topic] = k
	}
}

func (r *routes) learn(topic string, k *route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.learned[topic]
	if r.learned == nil || !known && len(r.learned) >= learnedTopics {
		r.learned = map[string]lane{}
	}
	r.learned[topic] = lane{route: k, sends: l.sends + 1}
}

// sends tells how many messages of a topic were sent, as far as is remembered.
func (r *routes) sends(topic string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.learned[topic].sends
}

// remove forgets a publisher that was closed.
func (r *routes) remove(k *route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = slices.DeleteFunc(r.known, func(other *route) bool { return other == k })
	for topic, l := range r.learned {
		if l.route == k {
			delete(r.learned, topic)
		}
	}
}

// find returns where messages of a topic go: as [Guard.Relay] was told, else
// through the publisher that sent the topic last, else through the only one
// there is.
func (r *routes) find(topic string) (*route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.given[topic] != nil:
		return r.given[topic], nil
	case r.rest != nil:
		return r.rest, nil
	case r.learned[topic].route != nil:
		return r.learned[topic].route, nil
	case len(r.known) == 1:
		return r.known[0], nil
	default:
		return nil, fmt.Errorf("%w for topic %q among the %d publishers that the guard knows: call guard.Relay(publisher, %[2]q)", ErrNoPublisher, topic, len(r.known))
	}
}

// Relay tells the guard which publisher sends stored outputs of the given
// topics, or of all topics that were not given, when nobody else does: for the
// relay, and for the duplicates of an earlier process.
//
// Without it the guard uses the publisher that sent a topic before, or the only
// one that it knows from the router's handlers and [Guard.Publisher]. So it is
// needed where there are several, and where the router has publisher decorators
// that change messages: the relay sends what the handler produced, through pub
// as it is given here.
//
// It may be called at any time; the last call for a topic counts. pub has to be
// safe for concurrent use and is not closed by the guard. A nil pub is
// [ErrConfig].
func (g *Guard) Relay(pub message.Publisher, topics ...string) error {
	if pub == nil {
		return fmt.Errorf("%w: Relay was given a nil publisher", ErrConfig)
	}
	if slices.Contains(topics, "") {
		return fmt.Errorf("%w: Relay was given an empty topic: name topics, or none for all", ErrConfig)
	}
	g.routes.give(g.routes.add(pub), topics)
	return nil
}

// closeRoute waits for at most the drain time until the attempts that are in
// flight now are settled, then closes the publisher.
func (g *Guard) closeRoute(k *route) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.config.Drain)
	defer cancel()
	settle(ctx, g.inflight.snapshot())
	g.routes.remove(k)
	return k.pub.Close()
}

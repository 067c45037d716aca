package once

import (
	"context"
	"fmt"
	"maps"
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

// publish sends what a consumer produced, if any did, and remembers where
// messages of the topic go.
func (r *route) publish(consumer, topic string, messages ...*message.Message) error {
	if err := r.pub.Publish(topic, messages...); err != nil {
		return err
	}
	r.sends.Add(1)
	r.routes.learn(lane{consumer, topic}, r)
	return nil
}

// routes tell which publisher sends what, when nobody is there to ask: for a
// duplicate, and for the relay.
type routes struct {
	mu     sync.Mutex
	known  []*route
	given  map[string]*route // by Guard.Relay
	rest   *route            // by Guard.Relay, for all other topics
	lanes  map[lane]*route   // by what was sent
	topics map[string]topicSeen
}

// lane is a topic that a consumer sends to. Another consumer may send to a topic
// of that name on another broker.
type lane struct{ consumer, topic string }

type topicSeen struct {
	route   *route
	several bool   // routes
	sends   uint64 // messages
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

func (r *routes) learn(l lane, k *route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lanes == nil || len(r.lanes) >= learnedTopics || len(r.topics) >= learnedTopics {
		r.lanes, r.topics = map[lane]*route{}, map[string]topicSeen{}
	}
	if l.consumer != "" {
		r.lanes[l] = k
	}
	seen := r.topics[l.topic]
	r.topics[l.topic] = topicSeen{
		route: k, several: seen.several || seen.route != nil && seen.route != k, sends: seen.sends + 1,
	}
}

// sends tells how many messages of a topic were sent, as far as is remembered.
func (r *routes) sends(topic string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topics[topic].sends
}

// remove forgets a publisher that was closed.
func (r *routes) remove(k *route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = slices.DeleteFunc(r.known, func(other *route) bool { return other == k })
	maps.DeleteFunc(r.lanes, func(_ lane, other *route) bool { return other == k })
	maps.DeleteFunc(r.topics, func(_ string, seen topicSeen) bool { return seen.route == k })
}

// find returns where an output goes: as [Guard.Relay] was told, else through the
// publisher that sent the consumer's messages of that topic last, else through
// the one that sent the topic, else through the only one there is. Where it
// would have to guess it finds none.
func (r *routes) find(l lane) (*route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.topics[l.topic]
	switch {
	case r.given[l.topic] != nil:
		return r.given[l.topic], nil
	case r.rest != nil:
		return r.rest, nil
	case r.lanes[l] != nil:
		return r.lanes[l], nil
	case seen.route != nil && !seen.several:
		return seen.route, nil
	case len(r.known) == 1:
		return r.known[0], nil
	default:
		return nil, fmt.Errorf("%w for topic %q among the %d publishers that the guard knows: call guard.Relay(publisher, %[2]q)", ErrNoPublisher, l.topic, len(r.known))
	}
}

// Relay tells the guard which publisher sends stored outputs of the given
// topics, or of all topics that were not given, when nobody else does: for the
// relay, and for the duplicates of an earlier process.
//
// Without it the guard uses the publisher that sent the topic for the same
// handler before, or for all others, or the only one that it knows from the
// router's handlers and [Guard.Publisher]. So it is needed where there are several, and where the router has publisher decorators
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

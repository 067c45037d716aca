package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"

	"github.com/watermill-once/watermill-once/examples/payments"
)

const (
	customers = 20
	shops     = 5
	firstShop = 101 // customers are 1, 2, 3, …

	openingCents = 1_000_000
	// sentAgain is the share of transfers that are sent twice, in percent.
	sentAgain = 25
)

// order is one transfer and the message that asks for it.
type order struct {
	id       string
	transfer payments.Transfer
}

// plan is what the producer does, the same for all three runs. A seed makes the
// same plan each time.
type plan struct {
	orders []order
	// sendings are the messages in the order in which they are sent: indexes
	// of orders, some of which come twice.
	sendings []int
	// kills are in the order of the stream, one for each consumer but the last.
	kills []kill
}

// kill says when a consumer is killed.
type kill struct {
	at     int // so many sendings are acked
	moment moment
}

// moments take turns, those of the receipts first.
var moments = []moment{beforeSending, afterSending, anywhere}

func newPlan(seed uint64, messages, kills int) *plan {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	source := rand.NewChaCha8(key)
	random := rand.New(source)

	p := &plan{orders: make([]order, messages)}
	for i := range p.orders {
		p.orders[i] = newOrder(source, random)
	}
	p.sendings = arrange(random, messages)
	p.kills = killPoints(random, len(p.sendings), kills)
	return p
}

// newOrder has a customer pay a shop. No shop pays anybody, so what the shops
// have at the end is what was moved, and each loss or double shows in it. It
// also keeps transfers from deadlocking: all lock a customer, then a shop.
func newOrder(source *rand.ChaCha8, random *rand.Rand) order {
	id, err := uuid.NewRandomFromReader(source)
	if err != nil {
		panic(err) // a ChaCha8 always reads
	}
	return order{id.String(), payments.Transfer{
		From:  1 + random.IntN(customers),
		To:    firstShop + random.IntN(shops),
		Cents: 100 + random.Int64N(9_900),
	}}
}

// arrange puts every order into the stream once, and some once more: half of
// those at once, as a client does that repeats a request, half of them later,
// as a job does that starts over.
func arrange(random *rand.Rand, orders int) []int {
	type place struct{ order, at int }
	var places []place
	for i := range orders {
		places = append(places, place{i, i})
		switch draw := random.IntN(100); {
		case draw < sentAgain/2:
			places = append(places, place{i, i})
		case draw < sentAgain:
			places = append(places, place{i, i + 1 + random.IntN(orders/2)})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	sendings := make([]int, len(places))
	for i, p := range places {
		sendings[i] = p.order
	}
	return sendings
}

// killPoints spreads the kills over the stream, away from its ends, each
// somewhere in a stretch of its own.
func killPoints(random *rand.Rand, sendings, kills int) []kill {
	points := make([]kill, kills)
	for i := range points {
		stretch := sendings / (kills + 1)
		points[i] = kill{
			at:     stretch*(i+1) - stretch/2 + random.IntN(max(stretch, 1)),
			moment: moments[i%len(moments)],
		}
	}
	return points
}

// opening are the balances before anything was paid.
func (p *plan) opening() map[int]int64 {
	balances := map[int]int64{}
	for i := range customers {
		balances[1+i] = openingCents
	}
	for i := range shops {
		balances[firstShop+i] = 0
	}
	return balances
}

// parcel is the message of one sending.
func (p *plan) parcel(sending int) parcel {
	o := p.orders[p.sendings[sending]]
	payload, err := json.Marshal(o.transfer)
	if err != nil {
		panic(err) // three numbers
	}
	return parcel{Sending: sending, UUID: o.id, Payload: payload}
}

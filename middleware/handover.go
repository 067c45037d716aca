package once

import (
	"sync"

	"github.com/watermill-once/watermill-once/store"
)

// sendTries is how often attempts try to send one output before they leave it to
// the relay. A broker that refuses an output would otherwise keep back the
// message, and on Kafka all that stand behind it, for ever.
const sendTries = 3

// handovers are outputs that attempts of this process could not send.
type handovers struct {
	mu    sync.Mutex
	tries map[store.OutputID]int
}

// failed notes a try, and reports whether the output is now the relay's.
func (h *handovers) failed(id store.OutputID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tries == nil || len(h.tries) >= maxFailed {
		h.tries = map[store.OutputID]int{} // they are tried a few times more
	}
	h.tries[id]++
	return h.tries[id] >= sendTries
}

// has reports whether an output is the relay's.
func (h *handovers) has(id store.OutputID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries[id] >= sendTries
}

func (h *handovers) sent(id store.OutputID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tries, id)
}

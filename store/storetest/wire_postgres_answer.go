package storetest

import (
	"encoding/binary"
	"strings"
)

// postgresAnswer follows the answer to a query or a batch.
type postgresAnswer struct {
	// flushed is an answer that ends without ReadyForQuery, when each of the
	// messages left has been answered or one has failed.
	flushed bool
	left    int
}

func (a *postgresAnswer) see(msg []byte) answerState {
	kind := msg[0]
	switch {
	case kind == 'Z' && a.flushed:
		return answerOver // the batch had failed before; this answers its Sync
	case kind == 'Z':
		return answerDone
	case kind == 'G' || kind == 'W': // CopyInResponse, CopyBothResponse
		return answerPause
	case !a.flushed:
		return answerMore
	case strings.IndexByte("123TnCIs", kind) >= 0: // what ends the answer to one message
		a.left--
	case kind == 'E':
		a.left = 0
	}
	if a.left > 0 {
		return answerMore
	}
	return answerDone
}

// postgresLogin follows the answer to a startup message.
type postgresLogin struct{ backend func(uint32) }

func (a *postgresLogin) see(msg []byte) answerState {
	switch msg[0] {
	case 'R': // an authentication request
		return answerPause
	case 'K':
		if len(msg) >= 9 {
			a.backend(binary.BigEndian.Uint32(msg[5:]))
		}
	case 'Z', 'E':
		return answerDone
	}
	return answerMore
}

package once

import (
	"crypto/sha256"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// FingerprintFunc returns a hash of what makes a message the operation that it
// is, at most 64 bytes. It is kept with the claim; another one under the same
// key is another message. Nil: this message is not compared.
//
// It is called concurrently, before any statement is sent, and must not change
// the message. When it fails or panics, the attempt ends with
// [ErrNoFingerprint]. [FingerprintFields] makes one over chosen fields.
type FingerprintFunc func(msg *message.Message) ([]byte, error)

// FingerprintPolicy says what to do with a message whose key was claimed with
// another fingerprint. It is a producer's fault, or two different operations
// whose keys agree.
type FingerprintPolicy int

const (
	// FingerprintReject, the default, ends the attempt with store.ErrKeyReused,
	// which is permanent: neither operation is lost unseen.
	FingerprintReject FingerprintPolicy = iota + 1
	// FingerprintWarn takes the message for a duplicate, which acknowledges it,
	// and tells the observer ([KeyReused]).
	FingerprintWarn
	// FingerprintOff compares nothing and stores no fingerprint.
	FingerprintOff
)

// String returns "reject", "warn" or "off".
func (p FingerprintPolicy) String() string {
	switch p {
	case FingerprintReject:
		return "reject"
	case FingerprintWarn:
		return "warn"
	case FingerprintOff:
		return "off"
	default:
		return fmt.Sprintf("FingerprintPolicy(%d)", int(p))
	}
}

// maxFingerprint is how many bytes the store keeps.
const maxFingerprint = 64

// fingerprintInto returns the message's fingerprint. The default is computed
// into sum, so that it costs no allocation of its own.
func (s *settings) fingerprintInto(sum *[sha256.Size]byte, msg *message.Message) ([]byte, error) {
	switch {
	case s.policy == FingerprintOff:
		return nil, nil
	case s.fingerprint == nil:
		*sum = sha256.Sum256(msg.Payload)
		return sum[:], nil
	default:
		return fingerprintOf(s.fingerprint, msg)
	}
}

// fingerprintOf calls f and refuses what the store does not keep.
func fingerprintOf(f FingerprintFunc, msg *message.Message) (value []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = nil, fmt.Errorf("%w: the fingerprint function panicked: %v", ErrNoFingerprint, p)
		}
	}()
	value, err = f(msg)
	if err == nil && len(value) > maxFingerprint {
		err = fmt.Errorf("it has %d bytes, at most %d are kept: hash it", len(value), maxFingerprint)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFingerprint, err)
	}
	if len(value) == 0 {
		return nil, nil
	}
	return value, nil
}

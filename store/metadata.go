package store

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// metadataVersion begins every encoding, so that another one can follow.
const metadataVersion = 1

// ErrMetadata: a column holds no metadata that this version wrote.
var ErrMetadata = errors.New("not an encoding of metadata")

// EncodeMetadata encodes metadata for its column: the version, the number of
// entries and one more (0 is a nil map), and for each entry, in the order of the
// keys, key and value behind their lengths. Any bytes are kept, and equal maps
// have equal encodings.
func EncodeMetadata(metadata map[string]string) []byte {
	if metadata == nil {
		return []byte{metadataVersion, 0}
	}
	size := 1 + binary.MaxVarintLen64
	for key, value := range metadata {
		size += len(key) + len(value) + 2*binary.MaxVarintLen32
	}
	b := append(make([]byte, 0, size), metadataVersion)
	b = binary.AppendUvarint(b, uint64(len(metadata))+1)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		b = appendText(appendText(b, key), metadata[key])
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// DecodeMetadata is the inverse of [EncodeMetadata]. It refuses everything that
// EncodeMetadata does not return, with [ErrMetadata].
func DecodeMetadata(b []byte) (map[string]string, error) {
	if len(b) == 0 || b[0] != metadataVersion {
		return nil, ErrMetadata
	}
	r := metadataReader{rest: b[1:]}
	count := r.number()
	if count == 0 && !r.bad && len(r.rest) == 0 {
		return nil, nil
	}
	// Each entry takes two bytes at least, so a count cannot ask for memory that
	// the input does not pay for.
	if r.bad || count == 0 || count-1 > uint64(len(r.rest))/2 {
		return nil, ErrMetadata
	}
	metadata := make(map[string]string, count-1)
	last := ""
	for i := range count - 1 {
		key, value := r.text(), r.text()
		if i > 0 && key <= last {
			return nil, ErrMetadata
		}
		metadata[key], last = value, key
	}
	if r.bad || len(r.rest) > 0 {
		return nil, ErrMetadata
	}
	return metadata, nil
}

// metadataReader reads on until something is wrong, and then nothing.
type metadataReader struct {
	rest []byte
	bad  bool
}

func (r *metadataReader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || size > 1 && r.rest[size-1] == 0 { // cut off, too long, or longer than needed
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *metadataReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode"
	"unicode/utf8"
)

// The tags that begin an encoded key. They are part of the schema: changing
// one makes every claim unfindable.
const (
	tagUUID byte = 1 // 16 bytes of a UUID in canonical lower case
	tagText byte = 2 // the text itself
	tagHash byte = 3 // SHA-256 of anything else
)

// maxTextKey is the longest key that is kept as text.
const maxTextKey = 200

// EncodeKey returns the bytes under which key is claimed. Two keys have the
// same encoding only when they are equal byte for byte (up to collisions of
// SHA-256), on every database: the encoding needs no collation, no charset and
// at most 201 bytes of an index.
func EncodeKey(key string) []byte {
	if uuid, ok := canonicalUUID(key); ok {
		return uuid
	}
	if len(key) <= maxTextKey && printable(key) {
		return append(append(make([]byte, 0, len(key)+1), tagText), key...)
	}
	sum := sha256.Sum256([]byte(key))
	return append([]byte{tagHash}, sum[:]...)
}

// DecodeKey shows an encoded key to a person: the original text where the
// encoding keeps it, else "sha256:" and the hash.
func DecodeKey(encoded []byte) string {
	if len(encoded) == 0 {
		return ""
	}
	body := encoded[1:]
	switch {
	case encoded[0] == tagUUID && len(body) == 16:
		text := hex.EncodeToString(body)
		return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
	case encoded[0] == tagText:
		return string(body)
	default:
		return "sha256:" + hex.EncodeToString(body)
	}
}

// canonicalUUID encodes a key such as 0b4e1d2c-…: 36 characters, lower case,
// dashes in place. Any other spelling of a UUID is text, because another
// spelling is another key.
func canonicalUUID(key string) ([]byte, bool) {
	if len(key) != 36 {
		return nil, false
	}
	out := make([]byte, 1, 17)
	out[0] = tagUUID
	high := -1
	for i := range len(key) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if key[i] != '-' {
				return nil, false
			}
			continue
		}
		digit := lowerHex(key[i])
		switch {
		case digit < 0:
			return nil, false
		case high < 0:
			high = digit
		default:
			out = append(out, byte(high<<4|digit))
			high = -1
		}
	}
	return out, true
}

func lowerHex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	default:
		return -1
	}
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) && r != ' ' {
			return false
		}
	}
	return true
}

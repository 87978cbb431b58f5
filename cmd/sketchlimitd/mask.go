package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sketchlimit/sketchlimit/rules"
)

// newMask returns a function that shows a key of refusals without the values in it: in
// their place is what tells two of them apart for as long as the process lives, and
// nothing else.
func newMask() func(key []byte) string {
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails
	return func(key []byte) string {
		var shown []string
		for _, e := range unkey(key) {
			h := hmac.New(sha256.New, secret)
			h.Write([]byte(e.Value))
			shown = append(shown, fmt.Sprintf("%s=#%x", e.Key, h.Sum(nil)[:4]))
		}
		return strings.Join(shown, " ")
	}
}

// unkey returns the entries of a key of refusals.
func unkey(key []byte) (d rules.Descriptor) {
	for len(key) > 0 {
		n, width := binary.Uvarint(key)
		if width <= 0 {
			return d
		}
		text := key[width:][:min(n, uint64(len(key)-width))] // the list cuts long keys
		name, value, _ := strings.Cut(string(text), "=")
		d, key = append(d, rules.Entry{Key: name, Value: value}), key[width+len(text):]
	}
	return d
}

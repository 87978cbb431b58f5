package sketchlimit

import "github.com/sketchlimit/sketchlimit/internal/keyhash"

// Hash turns a key into the 64 bits that its counts are found by. Keys with the same 64 bits
// share a quota, so whoever can choose the bytes of keys must not be able to find two:
// SECURITY.md says which Hash is for whom.
//
// A Hash always returns the same for the same key, is safe for concurrent use, and neither
// keeps nor changes the key.
type Hash interface {
	Sum64(key []byte) uint64
}

// XXHash returns the Hash of a Config that names none: XXH64 with a seed mixed in. 0 is
// Config.Seed, or one from crypto/rand if that is 0 as well.
//
// It is fast and the same on every machine, but not keyed: whoever chooses 8 bytes of a key
// that is longer can make it count as any other key, under every seed.
func XXHash(seed uint64) Hash { return keyhash.XX(seed) }

// MapHash returns the keyed Hash of hash/maphash, under a key of its own. The key lives in this
// process only, so the process can restore its own snapshots, and the next one cannot.
func MapHash() Hash { return keyhash.NewMap() }

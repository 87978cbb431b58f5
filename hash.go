package sketchlimit

import "github.com/sketchlimit/sketchlimit/internal/keyhash"

// Hash turns a key into the 64 bits that its counts are found by. Keys with the same 64 bits
// share a quota, so whoever can choose the bytes of keys must not be able to find two. The
// default is for everybody; SECURITY.md says what is proven of it, and when to choose another.
//
// A Hash always returns the same for the same key, is safe for concurrent use, and neither
// keeps nor changes the key.
type Hash interface {
	Sum64(key []byte) uint64
}

// KeyedHash returns the Hash of a Config that names none: a hash whose keys all follow from the seed, the same on every
// machine. 0 is Config.Seed, or one from crypto/rand if that is 0 as well.
//
// Without the seed, two keys of up to 64 bytes have the same hash with a chance of 2^-64, whatever bytes are
// chosen, and two of n bytes with one of at most (n/64 + 3) 2^-61. With the seed anybody can find such keys.
func KeyedHash(seed uint64) Hash { return keyhash.NewKeyed(seed) }

// XXHash returns XXH64 with a seed mixed in, for those who compare hashes between programs. 0 is
// Config.Seed, or one from crypto/rand if that is 0 as well.
//
// It is not keyed: whoever chooses 8 bytes of a key that is longer can make it count as any other key, under every seed.
func XXHash(seed uint64) Hash { return keyhash.XX(seed) }

// MapHash returns the keyed Hash of hash/maphash, under a key of its own. The key lives in this
// process only, so the process can restore its own snapshots, and the next one cannot.
func MapHash() Hash { return keyhash.NewMap() }

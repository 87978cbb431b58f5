package sketchlimit

import "github.com/sketchlimit/sketchlimit/internal/keyhash"

// Hash maps keys to 64 bits. Keys with the same 64 bits share a quota, so clients that
// choose the bytes of keys must not be able to find two such keys. The default suits
// everybody; SECURITY.md says what is proven of it, and when to choose another.
//
// A Hash returns the same value for the same key every time, is safe for concurrent
// use, and neither keeps nor changes the key.
type Hash interface {
	Sum64(key []byte) uint64
}

// KeyedHash returns the default Hash, whose secrets all follow from the seed, the same
// on every machine. 0 is Config.Seed, or a seed from crypto/rand if that is 0 as well.
//
// Two keys of up to 64 bytes, chosen without knowledge of the seed, have the same hash
// with a chance of 2^-64, and two keys of n bytes with at most (n/64 + 3) 2^-61. With
// the seed, anybody can find such keys.
func KeyedHash(seed uint64) Hash { return keyhash.NewKeyed(seed) }

// XXHash returns XXH64 with a seed mixed in, to compare hashes between programs. 0 is
// Config.Seed, or a seed from crypto/rand if that is 0 as well.
//
// It is not keyed: a client that chooses 8 bytes of a longer key can make it count as any
// other key, under every seed.
func XXHash(seed uint64) Hash { return keyhash.XX(seed) }

// MapHash returns the keyed Hash of hash/maphash, under a new key. The key lives in this
// process only: the next process cannot restore snapshots of this one.
func MapHash() Hash { return keyhash.NewMap() }

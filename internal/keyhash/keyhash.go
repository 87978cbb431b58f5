// Package keyhash turns keys into the 64 bits that their counts are found by.
package keyhash

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Hash is the method set of sketchlimit.Hash.
type Hash interface {
	Sum64(key []byte) uint64
}

// XX is XXH64 with a seed mixed in. It is not keyed.
type XX uint64

// Sum64 returns the hash of a key.
func (x XX) Sum64(key []byte) uint64 { return Mix(xxhash.Sum64(key), uint64(x)) }

// Map is the keyed hash of hash/maphash.
type Map struct{ seed maphash.Seed }

// NewMap returns a Map under a key of its own.
func NewMap() Map { return Map{maphash.MakeSeed()} }

// Sum64 returns the hash of a key.
func (m Map) Sum64(key []byte) uint64 { return maphash.Bytes(m.seed, key) }

// Hasher hashes the keys of one limiter.
type Hasher struct {
	Seed uint64
	Hash Hash // nil: XXH64, without an interface between
}

// New returns the Hasher of a Config's fields, and whether its seed was drawn.
func New(hash Hash, seed uint64) (h Hasher, drawn bool, err error) {
	if x, ok := hash.(XX); ok {
		if seed != 0 && x != 0 && uint64(x) != seed {
			return Hasher{}, false, fmt.Errorf("sketchlimit: Seed %d with XXHash(%d), must be 0 or the same", seed, uint64(x))
		}
		hash, seed = nil, seed|uint64(x)
	}
	if seed == 0 {
		return Hasher{randomSeed(), hash}, true, nil
	}
	return Hasher{seed, hash}, false, nil
}

// String returns the hash of a key.
func (h *Hasher) String(key string) uint64 {
	if h.Hash != nil {
		return h.by(unsafe.StringData(key), len(key))
	}
	return Mix(xxhash.Sum64String(key), h.Seed)
}

// Bytes returns the hash of a key, which is not kept.
func (h *Hasher) Bytes(key []byte) uint64 {
	if h.Hash != nil {
		return h.by(unsafe.SliceData(key), len(key))
	}
	return Mix(xxhash.Sum64(key), h.Seed)
}

// Addr returns the hash of an address: of its 4 or 16 bytes. An IPv4-mapped IPv6 address is the IPv4 address.
func (h *Hasher) Addr(key netip.Addr) uint64 {
	if key = key.Unmap(); key.Is4() {
		b := key.As4()
		return h.Bytes(b[:])
	}
	b := key.As16()
	return h.Bytes(b[:])
}

// by hashes a key by the Hash that was configured. The compiler cannot know that the Hash does
// not keep the key, and would move every caller's key to the heap. So the pointer goes past
// the compiler as a number, as it does in strings.Builder. Goroutines' stacks, where the key
// may be, do not move in between.
//
//go:noinline
func (h *Hasher) by(key *byte, n int) uint64 {
	p := *(*uintptr)(unsafe.Pointer(&key))
	return Mix(h.Hash.Sum64(unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)), h.Seed)
}

// Mix draws a hash for one purpose, a limiter or one of its generations, from a hash
// that serves several. Two hashes that are close, or share some bits, for one
// seed are strangers for another. Without the limiter's seed nobody can aim at a
// shard or at a key's cells. It does not separate keys whose whole hash is the same.
//
// A 64 × 64 → 128 bit product folded in two is the step of wyhash and rapidhash.
func Mix(h, seed uint64) uint64 {
	hi, lo := bits.Mul64(h^seed, 0x9fb21c651e98df25)
	return hi ^ lo
}

// randomSeed returns a seed that is not 0.
func randomSeed() uint64 {
	var b [8]byte
	for {
		crand.Read(b[:]) // never fails: crypto/rand ends the program instead
		if seed := binary.LittleEndian.Uint64(b[:]); seed != 0 {
			return seed
		}
	}
}

package sketchlimit

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

// Hash turns a key into the 64 bits that its counts are found by. Keys that share them
// share a quota, so whoever can choose the bytes of keys must not be able to find two:
// see SECURITY.md for which Hash is for whom.
//
// A Hash returns the same for the same key always, is safe for concurrent use, and neither
// keeps nor changes the key.
type Hash interface {
	Sum64(key []byte) uint64
}

// XXHash returns the Hash of a Config that names none: XXH64, drawn apart by a seed. 0 is
// Config.Seed, or one from crypto/rand if that is 0 as well.
//
// It is fast and the same on every machine, but not keyed: whoever chooses 8 bytes of a key
// that is longer can make it count as any other key, under every seed.
func XXHash(seed uint64) Hash { return xxHash(seed) }

type xxHash uint64

func (x xxHash) Sum64(key []byte) uint64 { return mix(xxhash.Sum64(key), uint64(x)) }

// MapHash returns the keyed Hash of hash/maphash, under a key of its own. That lives in this
// process only, so a snapshot can be restored within it, and not in the next one.
func MapHash() Hash { return mapHash{maphash.MakeSeed()} }

type mapHash struct{ seed maphash.Seed }

func (m mapHash) Sum64(key []byte) uint64 { return maphash.Bytes(m.seed, key) }

// hasher hashes the keys of one limiter.
type hasher struct {
	seed uint64
	hash Hash // nil: XXH64, without an interface between
}

// newHasher returns the hasher of a Config's fields, and whether its seed was drawn.
func newHasher(hash Hash, seed uint64) (h hasher, drawn bool, err error) {
	if x, ok := hash.(xxHash); ok {
		if seed != 0 && x != 0 && uint64(x) != seed {
			return hasher{}, false, fmt.Errorf("sketchlimit: Seed %d with XXHash(%d), must be 0 or the same", seed, uint64(x))
		}
		hash, seed = nil, seed|uint64(x)
	}
	if seed == 0 {
		return hasher{randomSeed(), hash}, true, nil
	}
	return hasher{seed, hash}, false, nil
}

func (h *hasher) hashString(key string) uint64 {
	if h.hash != nil {
		return h.by(unsafe.StringData(key), len(key))
	}
	return mix(xxhash.Sum64String(key), h.seed)
}

func (h *hasher) hashBytes(key []byte) uint64 {
	if h.hash != nil {
		return h.by(unsafe.SliceData(key), len(key))
	}
	return mix(xxhash.Sum64(key), h.seed)
}

func (h *hasher) hashAddr(key netip.Addr) uint64 {
	if key = key.Unmap(); key.Is4() {
		b := key.As4()
		return h.hashBytes(b[:])
	}
	b := key.As16()
	return h.hashBytes(b[:])
}

// by hashes a key by the Hash that was configured. The compiler cannot know that it does
// not keep the key, and would move every caller's to the heap; so the pointer goes past
// the compiler as a number, as it does in strings.Builder. Goroutines' stacks, where the key
// may be, do not move in between.
//
//go:noinline
func (h *hasher) by(key *byte, n int) uint64 {
	p := *(*uintptr)(unsafe.Pointer(&key))
	return mix(h.hash.Sum64(unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)), h.seed)
}

// mix draws a hash for one purpose, a limiter or one of its generations, from a hash
// that serves several: two hashes that are close, or meet in some bits, for one
// seed are strangers for another. Without the limiter's seed nobody can aim at a
// shard or at a key's cells. It does not part keys whose whole XXH64 is the same.
//
// A 64 × 64 → 128 bit product folded in two is the step of wyhash and rapidhash.
func mix(h, seed uint64) uint64 {
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

// Package keyhash turns keys into the 64 bits that their counts are found by: [Hasher],
// whose default is keyed.
package keyhash

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
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

// Keyed is the default hash under a seed of its own.
type Keyed struct{ hasher *Hasher }

// NewKeyed returns the Keyed of a seed.
func NewKeyed(seed uint64) Keyed {
	h := Hasher{}.Reseeded(seed)
	return Keyed{&h}
}

// Sum64 returns the hash of a key.
func (k Keyed) Sum64(key []byte) uint64 { return k.hasher.Bytes(key) }

// Map is the keyed hash of hash/maphash.
type Map struct{ seed maphash.Seed }

// NewMap returns a Map under a key of its own.
func NewMap() Map { return Map{maphash.MakeSeed()} }

// Sum64 returns the hash of a key.
func (m Map) Sum64(key []byte) uint64 { return maphash.Bytes(m.seed, key) }

// xx is XX where a Hasher mixes the seed in.
type xx struct{}

func (xx) Sum64(key []byte) uint64 { return xxhash.Sum64(key) }

// Hasher hashes the keys of one limiter.
type Hasher struct {
	Seed  uint64
	hash  Hash // nil: keyed, without an interface between
	keyed keyed
}

// New returns the Hasher of a Config's fields, and whether its seed was drawn.
func New(hash Hash, seed uint64) (h Hasher, drawn bool, err error) {
	h.hash = hash
	own, name := uint64(0), ""
	switch x := hash.(type) {
	case XX:
		h.hash, own, name = xx{}, uint64(x), "XXHash"
	case Keyed:
		h.hash, own, name = nil, x.hasher.Seed, "KeyedHash"
	}
	if seed != 0 && own != 0 && own != seed {
		return Hasher{}, false, fmt.Errorf("sketchlimit: Seed %d with %s(%d), must be 0 or the same", seed, name, own)
	}
	seed |= own
	if seed == 0 {
		return h.Reseeded(randomSeed()), true, nil
	}
	return h.Reseeded(seed), false, nil
}

// Reseeded returns the Hasher under another seed. Without a Hash it is the default one.
func (h Hasher) Reseeded(seed uint64) Hasher {
	h.Seed, h.keyed = seed, newKeyed(seed)
	return h
}

// For returns the Hasher that gives a text a sum, if it is this one, or this one under
// another seed where that may be. Otherwise the error says what the other one is.
func (h *Hasher) For(seed uint64, any bool, text string, sum uint64) (Hasher, error) {
	other := h.Reseeded(seed)
	switch {
	case sum == other.String(text) && (seed == h.Seed || any):
		return other, nil
	case seed == h.Seed || any:
		for _, x := range []struct {
			hash Hash
			name string
		}{{nil, "KeyedHash"}, {XX(0), "XXHash"}} {
			if other, _, _ = New(x.hash, seed); sum == other.String(text) {
				return Hasher{}, fmt.Errorf("another hash, Hash must be %s(Seed)", x.name)
			}
		}
	}
	return Hasher{}, errors.New("another hash, key or seed")
}

// String returns the hash of a key.
func (h *Hasher) String(key string) uint64 {
	return h.Bytes(unsafe.Slice(unsafe.StringData(key), len(key)))
}

// Bytes returns the hash of a key, which is not kept.
func (h *Hasher) Bytes(key []byte) uint64 {
	var x, y uint64 // together with the length, they tell all bytes of a short key
	n, k := len(key), &h.keyed
	switch {
	case h.hash != nil:
		return h.by(unsafe.SliceData(key), n)
	case n > 16:
		return k.long(key)
	case n >= 8:
		x, y = load(key), load(key[n-8:])
	case n >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		x = uint64(key[0]) | uint64(key[n/2])<<8 | uint64(key[n-1])<<16
	}
	return k.finish(k.start.plus(k.length, uint64(n)).plus(k.words[0], x).plus(k.words[1], y))
}

// Addr returns the hash of an address: of its 4 or 16 bytes. An IPv4-mapped IPv6
// address is the IPv4 address.
func (h *Hasher) Addr(key netip.Addr) uint64 {
	if key = key.Unmap(); key.Is4() {
		b := key.As4()
		return h.Bytes(b[:])
	}
	b := key.As16()
	return h.Bytes(b[:])
}

// by hashes a key by the Hash that was configured. The compiler cannot know that the
// Hash does not keep the key, and would move every caller's key to the heap. So the
// pointer goes past the compiler as a number, as it does in strings.Builder.
// Goroutines' stacks, where the key may be, do not move in between.
//
//go:noinline
func (h *Hasher) by(key *byte, n int) uint64 {
	p := *(*uintptr)(unsafe.Pointer(&key))
	return Mix(h.hash.Sum64(unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)), h.Seed)
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

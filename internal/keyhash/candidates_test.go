package keyhash

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// candidate is a hash that could be the default, under a seed.
type candidate struct {
	name string
	new  func(seed uint64) func(key []byte) uint64
}

// candidates were held against each other: notes/hash.md has the figures.
var candidates = []candidate{
	{"XXHash", func(seed uint64) func([]byte) uint64 {
		return func(key []byte) uint64 { return Mix(xxhash.Sum64(key), seed) }
	}},
	{"padded", newPadded},
	{"folded", newFolded},
	{"linear", func(seed uint64) func([]byte) uint64 { // the default without finish
		h := Hasher{}.Reseeded(seed)
		return func(key []byte) uint64 { return h.keyed.unfinish(h.Bytes(key)) }
	}},
	{"keyed", func(seed uint64) func([]byte) uint64 {
		h := Hasher{}.Reseeded(seed)
		return h.Bytes
	}},
	{"SipHash-1-3", newSip},
	{"MapHash", func(uint64) func([]byte) uint64 {
		seed := maphash.MakeSeed()
		return func(key []byte) uint64 { return maphash.Bytes(seed, key) }
	}},
}

// unfinish undoes finish.
func (k *keyed) unfinish(h uint64) uint64 {
	h = (h ^ h>>32) * inverse(k.odd[1])
	h = (h ^ h>>29 ^ h>>58) * inverse(k.odd[0])
	return h ^ h>>32
}

// inverse returns the inverse of an odd number modulo 2^64, by Newton's method.
func inverse(odd uint64) uint64 {
	x := odd
	for range 5 {
		x *= 2 - odd*x
	}
	return x
}

// newPadded is XXH64 of a key of up to 64 bytes under a secret pad.
func newPadded(seed uint64) func([]byte) uint64 {
	var pad [64]byte
	stream(seed, "pad").Read(pad[:])
	return func(key []byte) uint64 {
		masked := pad
		for i := range key {
			masked[i] ^= key[i]
		}
		return Mix(xxhash.Sum64(masked[:len(key)]), seed)
	}
}

// newFolded is made of the step of wyhash and rapidhash with secret words.
func newFolded(seed uint64) func([]byte) uint64 {
	random := stream(seed, "words")
	w := [4]uint64{random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()}
	return func(key []byte) uint64 {
		n, h := uint64(len(key)), w[0]
		for ; len(key) > 16; key = key[16:] {
			h = fold(load(key)^w[1], load(key[8:])^h)
		}
		var last [16]byte
		copy(last[:], key)
		hi, lo := bits.Mul64(load(last[:])^w[2], load(last[8:])^h)
		return fold(hi^w[3]^n, lo^w[1])
	}
}

// fold is a product of 128 bits folded in two.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// newSip is SipHash-1-3 (Aumasson and Bernstein, 2012).
func newSip(seed uint64) func([]byte) uint64 {
	random := stream(seed, "siphash")
	k0, k1 := random.Uint64(), random.Uint64()
	return func(key []byte) uint64 { return sip(k0, k1, key) }
}

func sip(k0, k1 uint64, key []byte) uint64 {
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261, k1^0x7465646279746573
	last := uint64(len(key)) << 56
	for ; len(key) >= 8; key = key[8:] {
		m := load(key)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^m)
		v0 ^= m
	}
	for i, b := range key {
		last |= uint64(b) << (8 * i)
	}
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^last)
	v0, v1, v2, v3 = sipRound(v0^last, v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0, v2 = v0+v1, v2+v3
	v1, v3 = bits.RotateLeft64(v1, 13)^v0, bits.RotateLeft64(v3, 16)^v2
	v0 = bits.RotateLeft64(v0, 32)
	v2, v0 = v2+v1, v0+v3
	v1, v3 = bits.RotateLeft64(v1, 17)^v2, bits.RotateLeft64(v3, 21)^v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}

// BenchmarkHash is the time of one hash where the next key is known before (free), or
// follows from the hash (chained).
func BenchmarkHash(b *testing.B) {
	for _, n := range []int{4, 8, 16, 24, 40, 64, 256} {
		keys := make([][]byte, 64)
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "%0*d", n, i*79)[:n]
		}
		for _, c := range candidates {
			if c.name == "linear" || c.name == "padded" && n > 64 {
				continue
			}
			hash, sum := c.new(1), uint64(0)
			b.Run(fmt.Sprintf("bytes=%d/hash=%s/free", n, c.name), func(b *testing.B) {
				for i := range b.N {
					sum += hash(keys[i&63])
				}
			})
			b.Run(fmt.Sprintf("bytes=%d/hash=%s/chained", n, c.name), func(b *testing.B) {
				for range b.N {
					sum = hash(keys[sum&63])
				}
			})
		}
	}
}

package keyhash

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// keyed is the default hash. All of its keys are secret, and follow from a seed.
//
// It takes a key's length and words of 8 bytes as x₀ … x₉, computes S = B + K₀x₀ + … +
// K₉x₉ modulo 2^128 with keys of 128 bits, and keeps the upper 64 bits of S.
// Dietzfelbinger ("Universal hashing and k-wise independent random variables via
// integer arithmetic without primes", 1996) has the proof: for random K and B, the
// hashes of any two keys of up to 64 bytes are independent, and each is uniform. So two
// keys that do not depend on K and B have the same hash with a chance of exactly 2^-64,
// whatever bytes they are.
//
// Longer keys are cut into m blocks of 64 bytes before the last 64. Each block has 60
// bits of such a hash, and these are the coefficients of a polynomial modulo 2^61-1,
// whose value at a secret point is one more x. Two keys have the same hash with a
// chance of at most (m+3) 2^-61.
//
// S is linear in the key: whoever learned some bits of many hashes could compute K. So
// finish hides it, and being a bijection it leaves the chances as they are. No proof
// says how well it hides.
type keyed struct {
	start, length uint128 // B, and K of the length
	words         [blockBytes / 8]uint128
	odd           [2]uint64
	blocks        uint128 // K of the polynomial
	point         uint64  // where the polynomial is evaluated, below 2^61
}

const (
	blockBytes = 64
	prime61    = 1<<61 - 1
)

func newKeyed(seed uint64) (k keyed) {
	random := stream(seed, "keys of a hash")
	draw := func() uint128 { return uint128{random.Uint64(), random.Uint64()} }
	k.start, k.length = draw(), draw()
	for i := range k.words {
		k.words[i] = draw()
	}
	k.odd = [2]uint64{random.Uint64() | 1, random.Uint64() | 1}
	k.blocks, k.point = draw(), random.Uint64()>>3
	return k
}

// Derive returns another secret that follows from a seed. It tells nothing of the seed,
// or of what else follows from it.
func Derive(seed uint64, purpose string) uint64 { return stream(seed, purpose).Uint64() }

// stream returns a cipher's stream under a seed, for one purpose of up to 24 bytes.
func stream(seed uint64, purpose string) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[8:], purpose)
	return rand.NewChaCha8(key)
}

// long hashes more than 8 bytes. The last word may begin within the one before.
func (k *keyed) long(key []byte) uint64 {
	n := len(key)
	s := k.start.plus(k.length, uint64(n)).plus(k.words[len(k.words)-1], load(key[n-8:]))
	if n > blockBytes {
		s = s.plus(k.blocks, k.polynomial(key[:n-1]))
		key = key[n-blockBytes:]
	}
	for i := 0; len(key) > 8; i++ {
		s = s.plus(k.words[i&7], load(key))
		key = key[8:]
	}
	return k.finish(s)
}

// polynomial hashes the whole blocks of a key.
func (k *keyed) polynomial(key []byte) (value uint64) {
	for ; len(key) >= blockBytes; key = key[blockBytes:] {
		s := k.start
		for i := range k.words {
			s = s.plus(k.words[i], load(key[8*i:]))
		}
		hi, lo := bits.Mul64(value+s.hi>>4, k.point)
		value = lo&prime61 + (hi<<3 | lo>>61)
		value = value&prime61 + value>>61 // below 2^61 + 2
	}
	return value
}

// finish is a bijection of the upper half, and far from linear.
func (k *keyed) finish(s uint128) uint64 {
	h := (s.hi ^ s.hi>>32) * k.odd[0]
	h = (h ^ h>>29) * k.odd[1]
	return h ^ h>>32
}

// uint128 is a number of 128 bits.
type uint128 struct{ hi, lo uint64 }

// plus returns s + k x modulo 2^128.
func (s uint128) plus(k uint128, x uint64) uint128 {
	hi, lo := bits.Mul64(k.lo, x)
	lo, carry := bits.Add64(s.lo, lo, 0)
	return uint128{s.hi + hi + k.hi*x + carry, lo}
}

func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

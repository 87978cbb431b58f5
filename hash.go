package sketchlimit

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/cespare/xxhash/v2"
)

func hashString(key string, seed uint64) uint64 { return mix(xxhash.Sum64String(key), seed) }

func hashBytes(key []byte, seed uint64) uint64 { return mix(xxhash.Sum64(key), seed) }

func hashAddr(key netip.Addr, seed uint64) uint64 {
	if key = key.Unmap(); key.Is4() {
		b := key.As4()
		return hashBytes(b[:], seed)
	}
	b := key.As16()
	return hashBytes(b[:], seed)
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

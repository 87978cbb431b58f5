package main

import "math/bits"

// keyHash returns the hash of a key by its number, for one seed: the finalizer of
// SplitMix64.
func keyHash(id uint32, seed uint64) uint64 {
	h := (uint64(id) + 1 + seed<<32) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// mix draws another hash from a hash: a product folded in two.
func mix(h, salt uint64) uint64 {
	hi, lo := bits.Mul64(h^salt, 0x9fb21c651e98df25)
	return hi ^ lo
}

// next draws the hash of the next row from the one of the row before.
func next(h uint64) uint64 { return mix(h, 0x2d358dccaa6c78a5) }

// rehash draws the hash for another part of a sketch, so that keys which meet in one
// part are strangers in the other.
func rehash(h uint64) uint64 { return mix(h, 0x8bb84b93962eacc9) }

// pick returns a number below n by the upper bits of a hash.
func pick(h, n uint64) uint64 {
	i, _ := bits.Mul64(h, n)
	return i
}

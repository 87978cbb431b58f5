// Package siphash is a keyed [sketchlimit.Hash] for several processes: all processes that
// know the key compute the same hash, and nobody else can find two keys of a limiter that
// count as one.
//
// It is a module of its own, so that other users do not get its dependency. SipHash-2-4 is
// described by Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012).
package siphash

import (
	"encoding/binary"

	"github.com/dchest/siphash"

	"github.com/sketchlimit/sketchlimit"
)

// New returns SipHash-2-4 under a key, which is to be random and known to no client.
func New(key [16]byte) sketchlimit.Hash {
	return hash{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
}

type hash struct{ k0, k1 uint64 }

func (h hash) Sum64(key []byte) uint64 { return siphash.Hash(h.k0, h.k1, key) }

package main

import (
	"encoding/binary"
	"math/rand/v2"
	"unsafe"
)

const (
	keyBytes   = 16
	batchKeys  = 1000 // decisions between two looks at who works on what
	batchBytes = batchKeys * keyBytes
)

// keys is a sequence of 16-byte keys, one after another in memory in the order of
// their use: a request that has just been parsed has its key in the cache, and what is
// measured is the limiter's memory, not the benchmark's.
type keys struct {
	bytes    []byte // whole batches
	repeat   int    // how often a batch is used before the next one
	distinct int    // the keys are those numbered 0 … distinct-1
}

// batch returns the keys of the i-th batch; after the last one the sequence begins anew.
func (k keys) batch(i int) []byte {
	at := i / k.repeat % (len(k.bytes) / batchBytes) * batchBytes
	return k.bytes[at : at+batchBytes]
}

// name writes key number id, of which no two are alike.
func name(to []byte, id uint64) {
	binary.LittleEndian.PutUint64(to, id*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(to[8:], ^id)
}

// view is the key at the beginning of b. Whoever keeps it keeps all of b.
func view(b []byte) string { return unsafe.String(&b[0], keyBytes) }

// uniform is every one of n keys, a multiple of batchKeys, once, in random order.
func uniform(n int) keys {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	k := keys{bytes: make([]byte, n*keyBytes), repeat: 1, distinct: n}
	for i, id := range r.Perm(n) {
		name(k.bytes[i*keyBytes:], uint64(id))
	}
	return k
}

// hot is one key at a time, each for so many batches, n in all.
func hot(n, batches int) keys {
	k := keys{bytes: make([]byte, n*batchBytes), repeat: batches, distinct: n}
	for i := range n * batchKeys {
		name(k.bytes[i*keyBytes:], uint64(i/batchKeys))
	}
	return k
}

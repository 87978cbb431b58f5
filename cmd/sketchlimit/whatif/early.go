package whatif

import (
	"bytes"
	"encoding/binary"

	"github.com/sketchlimit/sketchlimit"
)

// early keeps the first requests, in a few bytes each, until it is known whether there
// are few. What it keeps is less than what counting takes later on.
type early struct {
	options  Options
	most     int
	n        int
	requests [][]byte // in pieces, so that none is copied to grow
	last     int64    // the time of the last one
	hash     sketchlimit.Hash
	keys     []byte   // one behind another
	ends     []uint32 // of the keys, by their numbers
	places   []uint32 // the number of a key + 1, from the place that its hash names on; 0 is free
}

const (
	pieceBytes = 256 << 10
	keptBytes  = 3 * binary.MaxVarintLen64 // that a request takes at most: the time since the one before, the key's number, the cost
	earlyBytes = 32 << 20                  // of keys are as many as are kept
)

func newEarly(o Options) *early {
	return &early{options: o, most: o.ExactBelow, hash: sketchlimit.KeyedHash(o.Seed), places: make([]uint32, 1024)}
}

// add keeps requests; not ok if they are too many.
func (e *early) add(batch []Request) (ok bool) {
	if e.n += len(batch); e.n >= e.most || len(e.keys) >= earlyBytes {
		return false
	}
	for i := range batch {
		r := &batch[i]
		last := len(e.requests) - 1
		if last < 0 || len(e.requests[last])+keptBytes > pieceBytes {
			e.requests = append(e.requests, make([]byte, 0, pieceBytes))
			last++
		}
		b := binary.AppendVarint(e.requests[last], r.At-e.last)
		b = binary.AppendUvarint(b, uint64(e.number(r.Key)))
		e.requests[last] = binary.AppendUvarint(b, uint64(r.Cost))
		e.last = r.At
	}
	return true
}

// number returns that of a key.
func (e *early) number(key []byte) uint32 {
	i := e.place(key)
	if n := e.places[i]; n > 0 {
		return n - 1
	}
	n := uint32(len(e.ends))
	e.keys = append(e.keys, key...)
	e.ends = append(e.ends, uint32(len(e.keys)))
	e.places[i] = n + 1
	if 2*len(e.ends) > len(e.places) {
		e.places = make([]uint32, 2*len(e.places))
		for n := range e.ends {
			e.places[e.place(e.key(uint32(n)))] = uint32(n) + 1
		}
	}
	return n
}

// place returns where the number of a key is, or belongs.
func (e *early) place(key []byte) int {
	i := int(e.hash.Sum64(key)) & (len(e.places) - 1)
	for e.places[i] > 0 && !bytes.Equal(e.key(e.places[i]-1), key) {
		i = (i + 1) & (len(e.places) - 1)
	}
	return i
}

func (e *early) key(n uint32) []byte {
	from := uint32(0)
	if n > 0 {
		from = e.ends[n-1]
	}
	return e.keys[from:e.ends[n]]
}

// replay counts what was kept, and lets go of it unless it is kept on.
func (e *early) replay(a *Analysis, keep bool) {
	batch, at := make([]Request, 0, chunkLength), int64(0)
	for i, block := range e.requests {
		if !keep {
			e.requests[i] = nil
		}
		for len(block) > 0 {
			since, n := binary.Varint(block)
			key, m := binary.Uvarint(block[n:])
			cost, k := binary.Uvarint(block[n+m:])
			block = block[n+m+k:]
			at += since
			if batch = append(batch, Request{At: at, Key: e.key(uint32(key)), Cost: uint32(cost)}); len(batch) == chunkLength {
				a.Add(batch)
				batch = batch[:0]
			}
		}
	}
	a.Add(batch)
}

// report is exact.
func (e *early) report() *Report {
	o := e.options
	o.Exact, o.ExactBelow = true, 0
	a, err := New(o)
	if err != nil {
		panic(err) // the same options have made the Analysis that e belongs to
	}
	e.replay(a, true)
	return a.Report()
}

package engine

import (
	"math"
	"sync/atomic"
)

// denial remembers a key of the shard that had nothing left (its hash, XOR the units that
// were held back from it), and until when. As long as nothing is counted in the shard the key is
// denied again, in the same words, by reading this alone, without the lock. A flood on one key takes
// three loads and no store.
//
// The three words are read and written one by one; check tells whether they belong
// together and to the key.
type denial struct {
	until atomic.Int64 // word of the position at which a unit comes free
	reset atomic.Int64 // unix time, ns, when the quota is whole
	check atomic.Uint64
}

// note puts down a key that was denied, under the shard's lock.
func (d *denial) note(h uint64) { d.check.Store(d.sum(h) ^ noted) }

// noted tells whether the key is the one put down last.
func (d *denial) noted(h uint64) bool { return d.check.Load() == d.sum(h)^noted }

// noted marks a key as put down and not remembered.
const noted = 1 << 63

// set is called under the shard's lock.
func (d *denial) set(h uint64, until, reset int64) {
	d.until.Store(until)
	d.reset.Store(reset)
	d.check.Store(d.sum(h))
}

func (d *denial) sum(h uint64) uint64 { return h ^ uint64(d.until.Load()) ^ uint64(d.reset.Load()) }

// forget is for counts that have changed, under the shard's lock: a key that was denied may have to wait
// longer now, also because of units of other keys in its cells; or not as long, if it was admitted at
// another limit or the clock has stepped back.
func (d *denial) forget() {
	if d.until.Load() != math.MinInt64 {
		d.until.Store(math.MinInt64)
	}
}

// holds tells whether the key is known to have nothing left at a position's word, and
// until when.
func (d *denial) holds(h uint64, word int64) (until, reset int64, ok bool) {
	until, reset = d.until.Load(), d.reset.Load()
	return until, reset, word < until && d.check.Load() == h^uint64(until)^uint64(reset)
}

package sizing

import (
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
)

// Need is what a limiter is for.
type Need struct {
	Rule        spec.Rule
	Lowest      int     // limit that a request may come with
	Keys        int     // distinct keys in a window; 0 if nobody knows
	Units       float64 // that a key uses in a window, on average; 0 if nobody knows
	Headroom    float64 // multiple of that traffic up to which the rate shall hold
	Rate        float64 // of false denials
	MemoryBytes int     // the most that the limiter may take, everything included; 0 if nobody said
	Grows       bool    // it may become larger
}

const (
	// generationBytes is the memory of one generation of a shard. A shard is what one
	// lock guards, and what one request may have to clear: small shards spread the lock
	// and bound the pause. Larger ones err less, but by less than half.
	generationBytes = 8 << 10
	// heavyShare is the divisor of the memory that the table of heavy hitters gets.
	heavyShare = 4
	// smallestLines is the cache lines of the smallest generation of a shard: one of the
	// Bloom filter, one of the sketch.
	smallestLines = 2
	// tableHeadroom is what a row bears of its own: everybody is denied from twice the
	// load of its traffic on, and the rate has passed its goal long before.
	tableHeadroom = 4. / 3
	// defaultUse is the mean share of their limit that keys use where none is stated.
	defaultUse = 0.2
)

// Overhead is what a limiter takes of the heap beside its engine: the Limiter, its
// window manager, and the counter of denials without a lock, as measured with Go 1.26.
const Overhead = 1616

// HeavyTable reports whether a table of heavy hitters pays: not with counters of 4 bits,
// which do as well without, and not with more than two generations or limits that do not
// fit an entry.
func (n *Need) HeavyTable() bool {
	return heavyhitter.Fits(int(n.Rule.Limit)) && n.Rule.Generations() <= 2 && int(n.Rule.Limit) > 16 && !n.Rule.IsBucket()
}

// table reports whether the limiter has a table of heavy hitters.
func (n *Need) table() bool { return n.HeavyTable() || n.Rule.DeniesProven() }

// Smallest returns the least memory that makes a limiter.
func (n *Need) Smallest() int {
	if n.Rule.IsBucket() {
		return Overhead + engine.SelfBytes + engine.ShardBytes + spec.HeapBytes(timetable.LineBytes+spec.StateBytes)
	}
	bytes := n.Rule.Generations() * smallestLines * bloom.BlockBytes
	const bucket = 8 * heavyhitter.BucketEntries
	for n.table() && bytes-bytes/heavyShare/bucket*bucket < n.Rule.Generations()*smallestLines*bloom.BlockBytes {
		bytes += 8
	}
	if n.Rule.DeniesProven() {
		bytes = int(float64(bytes)*(1+spec.OverCapacityShare)) + 8 + spec.StateBytes
	}
	return Overhead + engine.SelfBytes + engine.ShardBytes + spec.HeapBytes(bytes)
}

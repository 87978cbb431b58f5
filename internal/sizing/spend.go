package sizing

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/engine"
)

const (
	// depth is the number of rows that all figures in docs/ are for; whether others do
	// better at equal memory has not been measured.
	depth = 4
	// generationBytes is the memory of one generation of a shard. A shard is what one
	// request may have to clear, and what one lock guards: small shards bound
	// the first and spread the second. Larger ones err less, by less than half.
	generationBytes = 8 << 10
	// A doorkeeper takes one in so many bytes of its generation; with a heavy table,
	// which takes one in heavyShare of the whole, that is a quarter of all as well.
	doorShare            = 4
	doorShareBesideHeavy = 3
	heavyShare           = 4
	// smallestLines is the cache lines of the smallest generation of a shard: one
	// for the doorkeeper, one for the sketch.
	smallestLines = 2
	// heavyThreshold is the units in a generation that make a key heavy.
	heavyThreshold = 16
	// mostMarks are how often a bit of the doorkeepers may be set on average. They leave nine of a block's 512 bits
	// unset; with many fewer nobody can tell how many keys there are, nor that there are more than planned.
	mostMarks = 4
)

// probes returns the bits a key sets in a doorkeeper of so many blocks in all. A
// false positive there costs a key one unit of its quota, the whole of it if the
// limit is 1: the lower the limit, the more probes are worth what they do to a
// crowded filter.
func (n *Need) probes(blocks int) int {
	switch {
	case int(n.Rule.Limit()) == 1 && n.Keys > 0:
		probes, _ := bloom.Best(float64(n.Keys) / float64(blocks))
		return probes
	case int(n.Rule.Limit()) == 1:
		return 8
	case n.Lowest <= 16:
		return 4
	}
	return 3
}

// Shape is how memory is spent.
type Shape struct {
	Depth     int     // rows of a sketch
	Probes    int     // of the doorkeepers
	Door      float64 // share of a generation that its doorkeeper takes
	Heavy     float64 // share of everything that the table of heavy keys takes
	Threshold int     // units in a generation that make a key heavy
}

// Shape returns one that does about right for most limits, and for buckets and a limit of 1 in any case.
func (n *Need) Shape(memory int) Shape {
	s := Shape{Depth: depth, Door: 1. / doorShare, Threshold: max(1, min(heavyThreshold, n.Lowest/3))}
	if n.HeavyTable() {
		s.Heavy, s.Door = 1./heavyShare, 1./doorShareBesideHeavy
	}
	s.Probes = n.probes(max(1, memory/bloom.BlockBytes/n.Rule.Generations()))
	return s
}

// PlanFor spends the memory: as Tune would for the traffic that Keys and a rate stand for, and
// otherwise, also where it may become more, as has been measured to be about right.
func (n *Need) PlanFor(memory int) (engine.Dimensions, error) {
	if row, _ := n.sized(); row != nil && n.MemoryBytes == 0 && !n.Grows {
		how, _, err := n.sizedFor(n.Keys)
		if err != nil {
			return engine.Dimensions{}, err
		}
		return n.Spend(memory, how)
	}
	return n.Spend(memory, n.Shape(memory))
}

// Spend spends the memory: as many shards as have generationBytes for each generation, in each a
// part for the doorkeepers, a part for the heavy table where there is one, the rest
// for cells.
func (n *Need) Spend(memory int, s Shape) (engine.Dimensions, error) {
	generations := n.Rule.Generations()
	memory -= Overhead + engine.SelfBytes
	shards := min(max(memory/(generations*generationBytes), 1), engine.MaxShards)
	memory -= shards * engine.ShardBytes
	bytes := memory &^ (engine.HeapUnit(memory) - 1) / shards
	if n.Rule.IsBucket() {
		bytes -= engine.LastBytes
	}
	p := engine.Dimensions{Shards: shards, CellBits: engine.CellBits(int(n.Rule.Limit())), Depth: s.Depth, BloomProbes: s.Probes}
	if s.Heavy > 0 && n.HeavyTable() {
		p.HeavyEntries = int(float64(bytes)*s.Heavy) / (8 * engine.HeavyBucket) * engine.HeavyBucket
		p.HeavyThreshold = s.Threshold
		bytes -= 8 * p.HeavyEntries
	}
	lines := bytes / generations / bloom.BlockBytes
	if lines < smallestLines {
		return engine.Dimensions{}, fmt.Errorf("sketchlimit: MemoryBytes %d, must be at least %d to hold one shard",
			n.MemoryBytes, n.Smallest())
	}
	doorLines := lines
	switch {
	case n.Rule.IsBucket():
		doorLines, p.BloomProbes, p.CellBits = 0, 0, engine.BucketBits
	case int(n.Rule.Limit()) > 1:
		doorLines = min(max(1, int(float64(lines)*s.Door)), lines-1)
		doorLines, p.BloomProbes = n.telling(doorLines, lines, shards, p.BloomProbes)
	}
	if doorLines < lines {
		rowWords := (lines - doorLines) * bloom.BlockBytes / 8 / p.Depth
		p.Width = rowWords * 64 / p.CellBits
	}
	p.BloomBytes = doorLines * bloom.BlockBytes
	return p, nil
}

// telling returns the lines and the probes of a shard's doorkeeper with which it still tells how many keys
// there are, if as many come as stated, which false denials alone do not ask for: more lines, up to half of
// all, and fewer probes.
func (n *Need) telling(doorLines, lines, shards, probes int) (int, int) {
	if n.Keys == 0 {
		return doorLines, probes
	}
	marks := float64(n.Keys) / float64(shards*bloom.BlockBytes*8) / mostMarks // a line, by one probe, of those that it bears
	doorLines = max(doorLines, min(int(math.Ceil(marks)), lines/2))
	return doorLines, max(1, min(probes, int(float64(doorLines)/marks)))
}

// HeavyTable tells whether a table of heavy keys pays. Cells of 4 bits do as well
// without, and beyond two generations or a word's width there is none.
func (n *Need) HeavyTable() bool {
	return engine.HeavyFits(int(n.Rule.Limit())) && n.Rule.Generations() <= 2 && int(n.Rule.Limit()) > 16 && !n.Rule.IsBucket()
}

// Smallest returns the least memory that makes a limiter.
func (n *Need) Smallest() int {
	bytes := n.Rule.Generations() * smallestLines * bloom.BlockBytes
	if n.Rule.IsBucket() {
		bytes += engine.LastBytes
	}
	for n.HeavyTable() && bytes-bytes/heavyShare/64*64 < n.Rule.Generations()*smallestLines*bloom.BlockBytes {
		bytes += 8
	}
	return Overhead + engine.SelfBytes + engine.ShardBytes + engine.HeapBytes(bytes)
}

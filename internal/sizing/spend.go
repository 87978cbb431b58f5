package sizing

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
)

const (
	// depth is the number of rows, besideHeavy that beside a table of heavy keys, and lowDepth that where a few units of
	// others are too many: more rows err less often, fewer bear more load.
	depth       = 4
	besideHeavy = 3
	lowDepth    = 6
	// generationBytes is the memory of one generation of a shard. A shard is what one
	// request may have to clear, and what one lock guards: small shards bound
	// the first and spread the second. Larger ones err less, by less than half.
	generationBytes = 8 << 10
	// A heavy table takes one in heavyShare bytes of the whole, a doorkeeper that guards nothing one in doorShare of its
	// generation.
	heavyShare = 4
	doorShare  = 32
	// smallestLines is the cache lines of the smallest generation of a shard: one
	// for the doorkeeper, one for the sketch.
	smallestLines = 2
	// heavyThreshold is the units in a generation that make a key heavy, up to a third of the limit, and heavyPart the part
	// of the limit that is needed in any case: with fewer units a single request of many would do, and the table would be
	// full of light keys when heavy ones come.
	heavyThreshold = 16
	heavyPart      = 6
	// guardProbes are those of a doorkeeper that guards, in guardShare of its generation. It pays where any unit of
	// others is much of the limit: below guardBelow.
	guardProbes = 4
	guardShare  = 0.25
	guardBelow  = 8
	// mostMarks are how often a bit of the doorkeepers may be set on average. They leave nine of a block's 512 bits
	// unset; with many fewer nobody can tell how many keys there are, nor that there are more than planned.
	mostMarks = 4
)

// probes returns the bits a key sets in a doorkeeper of so many blocks in all: 1 unless doorkeepers count alone.
func (n *Need) probes(blocks int) int {
	switch {
	case int(n.Rule.Limit) > 1:
		return 1
	case n.Keys > 0:
		probes, _ := bloom.Best(float64(n.Keys) / float64(blocks))
		return probes
	}
	return 8
}

// Shape is how memory is spent.
type Shape struct {
	Depth     int     // rows of a sketch, or entries in a line of a bucket's table
	Probes    int     // of the doorkeepers; from 2 on they guard the cells
	Door      float64 // share of a generation that such a doorkeeper takes
	Heavy     float64 // share of everything that the table of heavy keys takes
	Threshold int     // units in a generation that make a key heavy
}

// Shape returns one that does about right for most limits, and for buckets and a limit of 1 in any case.
func (n *Need) Shape(memory int) Shape {
	if n.Rule.IsBucket() {
		entries, _ := n.entriesOfLine()
		return Shape{Depth: entries}
	}
	s := Shape{Depth: depth, Threshold: max(1, min(heavyThreshold, n.Lowest/3), n.Lowest/heavyPart)}
	if n.HeavyTable() {
		s.Heavy, s.Depth = 1./heavyShare, besideHeavy
	}
	if n.Lowest < lowBelow {
		s.Depth = lowDepth
	}
	if n.Lowest < guardBelow && int(n.Rule.Limit) > 1 {
		return s.Guarded()
	}
	s.Probes = n.probes(max(1, memory/bloom.BlockBytes/n.Rule.Generations()))
	return s
}

// PlanFor spends the memory: as Tune would for the traffic that Keys and a rate stand for, and
// otherwise, also where it may become more, as has been measured to be about right.
func (n *Need) PlanFor(memory int) (spec.Dimensions, error) {
	if row, _ := n.sized(); row != nil && n.MemoryBytes == 0 && !n.Grows {
		how, _, err := n.sizedFor(n.Keys)
		if err != nil {
			return spec.Dimensions{}, err
		}
		return n.Spend(memory, how)
	}
	return n.Spend(memory, n.Shape(memory))
}

// Spend spends the memory: as many shards as have generationBytes for each generation, in each a
// part for the doorkeepers, a part for the heavy table where there is one, the rest
// for cells.
func (n *Need) Spend(memory int, s Shape) (spec.Dimensions, error) {
	if n.Rule.IsBucket() {
		return n.spendLines(memory, s.Depth)
	}
	generations := n.Rule.Generations()
	memory -= Overhead + engine.SelfBytes
	share := 1. // of the memory, beside the entries for more than is planned
	if n.Rule.DeniesProven() {
		share = 1 / (1 + spec.OverCapacityShare)
	}
	shards := min(max(int(float64(memory)*share)/(generations*generationBytes), 1), spec.MaxShards)
	memory -= shards * engine.ShardBytes
	bytes := memory &^ (spec.HeapUnit(memory) - 1) / shards
	if n.Rule.DeniesProven() {
		bytes = int(float64(bytes-spec.StateBytes) * share)
		s = n.withProvenEntries(s)
	}
	p := spec.Dimensions{Shards: shards, CellBits: spec.CellBits(int(n.Rule.Limit)), Depth: s.Depth, BloomProbes: s.Probes}
	if s.Heavy > 0 && n.table() {
		p.HeavyEntries = int(float64(bytes)*s.Heavy) / (8 * heavyhitter.BucketEntries) * heavyhitter.BucketEntries
		p.HeavyThreshold = s.Threshold
		bytes -= 8 * p.HeavyEntries
	}
	lines := bytes / generations / bloom.BlockBytes
	if lines < smallestLines {
		return spec.Dimensions{}, fmt.Errorf("sketchlimit: MemoryBytes %d, must be at least %d to hold one shard",
			n.MemoryBytes, n.Smallest())
	}
	doorLines := lines
	if int(n.Rule.Limit) > 1 {
		doorLines, p.BloomProbes = n.doorkeeper(lines, shards, s)
	}
	if doorLines < lines {
		rowWords := (lines - doorLines) * bloom.BlockBytes / 8 / p.Depth
		p.Width = rowWords * 64 / p.CellBits
	}
	p.BloomBytes = doorLines * bloom.BlockBytes
	return p, nil
}

// withProvenEntries returns a shape with a table of heavy keys, which proves keys to be over their limit.
func (n *Need) withProvenEntries(s Shape) Shape {
	if s.Heavy == 0 {
		s.Heavy, s.Threshold = 1./heavyShare, max(1, n.Lowest/2)
	}
	return s
}

// Guarded returns a shape with doorkeepers that guard the cells.
func (s Shape) Guarded() Shape {
	s.Probes, s.Door = guardProbes, guardShare
	return s
}

// doorkeeper returns how many of a generation's lines are its doorkeeper's, and the probes: enough to tell how many keys
// there are, if as many come as stated. One that guards gets its share, and more, up to half of all, and fewer
// probes if it takes that; but two, because with one it would not guard.
func (n *Need) doorkeeper(lines, shards int, s Shape) (doorLines, probes int) {
	marks := float64(n.Keys) / float64(shards*bloom.BlockBytes*8) / mostMarks // a line, by one probe, of those that it bears
	if s.Probes < 2 {
		return min(max(1, lines/doorShare, int(math.Ceil(marks/engine.Sampled))), lines-1), 1
	}
	doorLines = min(max(1, int(float64(lines)*s.Door)), lines-1)
	doorLines = max(doorLines, min(int(math.Ceil(marks)), lines/2))
	if n.Keys == 0 {
		return doorLines, s.Probes
	}
	return doorLines, max(2, min(s.Probes, int(float64(doorLines)/marks)))
}

// HeavyTable tells whether a table of heavy keys pays. Cells of 4 bits do as well
// without, and beyond two generations or a word's width there is none.
func (n *Need) HeavyTable() bool {
	return heavyhitter.Fits(int(n.Rule.Limit)) && n.Rule.Generations() <= 2 && int(n.Rule.Limit) > 16 && !n.Rule.IsBucket()
}

// table tells whether there is a table of heavy keys.
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

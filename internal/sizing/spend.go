package sizing

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

const (
	// countingShare is the divisor of a generation's cache lines that a Bloom filter gets
	// which is not asked first.
	countingShare = 32
	// maxMarks bounds the mean number of times that a bit of the Bloom filters is set.
	// It leaves 9 of a block's 512 bits unset: with far fewer, neither the number of
	// keys nor its excess over the plan can be told.
	maxMarks = 4
)

// Spend spends the memory: as many shards as have generationBytes for each generation,
// in each a part for the Bloom filters, a part for the heavy table where there is one,
// the rest for cells.
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
		p.PromoteAt = s.Threshold
		bytes -= 8 * p.HeavyEntries
	}
	lines := bytes / generations / bloom.BlockBytes
	if lines < smallestLines {
		return spec.Dimensions{}, fmt.Errorf("sketchlimit: MemoryBytes %d, must be at least %d to hold one shard",
			n.MemoryBytes, n.Smallest())
	}
	filterLines := lines
	if int(n.Rule.Limit) > 1 {
		filterLines, p.BloomProbes = n.filterLines(lines, shards, s)
	}
	if filterLines < lines {
		rowWords := (lines - filterLines) * bloom.BlockBytes / 8 / p.Depth
		p.Width = rowWords * 64 / p.CellBits
	}
	p.BloomBytes = filterLines * bloom.BlockBytes
	return p, nil
}

// filterLines returns how many of a generation's lines are its Bloom filter's, and the
// probes: enough to tell how many keys there are, if as many come as stated. One that
// guards gets its share, and more, up to half of all, and fewer probes if it takes
// that; but two, because with one it would not guard.
func (n *Need) filterLines(lines, shards int, s Shape) (filterLines, probes int) {
	marks := float64(n.Keys) / float64(shards*bloom.BlockBytes*8) / maxMarks // a line, by one probe, of those that it bears
	if s.Probes < 2 {
		return min(max(1, lines/countingShare, int(math.Ceil(marks/engine.Sampled))), lines-1), 1
	}
	filterLines = min(max(1, int(float64(lines)*s.Filter)), lines-1)
	filterLines = max(filterLines, min(int(math.Ceil(marks)), lines/2))
	if n.Keys == 0 {
		return filterLines, s.Probes
	}
	return filterLines, max(2, min(s.Probes, int(float64(filterLines)/marks)))
}

package sizing

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
)

const (
	// abusers is the share of keys that use more than their limit.
	abusers = 0.01
	// linesOfShard are the lines of a shard's table, beside which it has one more.
	linesOfShard = generationBytes/timetable.LineBytes - 1
)

// EntriesAtOnce returns how many entries of a bucket's table are in use at a time. A
// key has one while its bucket is not full: of the time in which a bucket fills the
// share of its units that it uses, by one unit at least.
func (n *Need) EntriesAtOnce(keys int) float64 {
	burst := float64(n.Rule.BurstAt(int64(n.Lowest)))
	units := n.Units
	if units == 0 {
		units = defaultUse * burst
	}
	use := min(1, max(1, units)/burst)
	return float64(keys) * n.Headroom * (use + abusers*(1-use))
}

// entriesOfLine returns how many entries a line has that take the least memory for the
// rate, and how many of them may be in use on average.
func (n *Need) entriesOfLine() (entries int, inUse float64) {
	for _, e := range timetable.Entries {
		shared := timetable.Shared(float64(e), 1, e) // such keys are denied as well
		if shared >= n.Rate {
			continue
		}
		if use := timetable.LoadFor(e, n.Rate-shared) * float64(e); use > inUse {
			entries, inUse = e, use
		}
	}
	return entries, inUse
}

// MemoryForEntries returns the memory of a bucket's limiter for so many entries in use
// at a time.
func (n *Need) MemoryForEntries(atOnce float64) (int, error) {
	_, inUse := n.entriesOfLine()
	lines := math.Ceil(atOnce / inUse)
	shards := math.Ceil(lines / linesOfShard)
	lines += shards // of which each has a whole number
	bytes := timetable.LineBytes*lines + shards*float64(spec.StateBytes)
	if bytes > float64(spec.MaxMemory-n.Smallest()) {
		return 0, fmt.Errorf("sketchlimit: %.3g keys at once at FalseDenialRate %v need %.3g bytes, must be at most %d",
			atOnce, n.Rate, bytes, spec.MaxMemory)
	}
	return max(n.Smallest(), Overhead+engine.SelfBytes+int(shards)*engine.ShardBytes+spec.HeapBytes(int(bytes))), nil
}

// spendLines spends memory on the tables of a bucket: shards as Spend makes them, and
// lines of so many entries.
func (n *Need) spendLines(memory, entries int) (spec.Dimensions, error) {
	memory -= Overhead + engine.SelfBytes
	shards := min(max(memory/(generationBytes+engine.ShardBytes), 1), spec.MaxShards)
	memory -= shards * engine.ShardBytes
	lines := (memory&^(spec.HeapUnit(memory)-1)/shards - spec.StateBytes) / timetable.LineBytes
	if lines < 1 {
		return spec.Dimensions{}, fmt.Errorf("sketchlimit: MemoryBytes %d, must be at least %d to hold one shard", n.MemoryBytes, n.Smallest())
	}
	return spec.Dimensions{Shards: shards, Depth: entries, Width: lines, CellBits: spec.BucketBits}, nil
}

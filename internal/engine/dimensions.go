package engine

import (
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Dimensions are those of a sketchlimit.Plan. Of a bucket Width are the lines of a shard's
// table, and Depth the entries of a line.
type Dimensions struct {
	Shards, BloomBytes, BloomProbes, Depth, Width, CellBits, HeavyEntries, HeavyThreshold int
}

const (
	// MaxShards is the most shards of an engine.
	MaxShards = 1 << 24
	// MaxWindow is the longest window, ns: sums of three windows fit an int64.
	MaxWindow = windowmath.MaxWindow
	// MaxMemory is the most bytes of an engine: 1 GiB, or 128 TiB where an int has 64 bits.
	MaxMemory = 1 << (30 + 17*(^uint(0)>>63))
	// BucketBits are the bits of a bucket's time.
	BucketBits = 32
)

// doorsAlone tells whether doorkeepers count alone.
func (d *Dimensions) doorsAlone(rule *Rule) bool {
	return d.Width == 0 && rule.limit == 1 && d.BloomBytes > 0
}

// CellBits returns the narrowest cell that counts up to a window's limit.
func CellBits(limit int) int {
	for bits := 4; ; bits *= 2 {
		if l, _ := cms.NewLayout(1, 64/bits, bits); limit <= int(l.Max()) {
			return bits
		}
	}
}

// ShardMemory returns the bytes of a shard's memory.
func (d *Dimensions) ShardMemory(rule *Rule) float64 {
	generation := float64(d.BloomBytes) + float64(d.Depth)*float64(d.Width)*float64(d.CellBits)/8
	if rule.IsBucket() {
		generation = timetable.LineBytes * float64(d.Width)
	}
	return float64(rule.Ring.Buffers())*generation + 8*float64(d.entries(rule)+int(rule.extra))
}

// SpareShare is the memory of a window that may spare keys, beside all that it has otherwise: entries in its table, for all
// that are above their limit when more come than planned.
const SpareShare = 1. / 4

// entries returns those of a shard's table.
func (d *Dimensions) entries(rule *Rule) int {
	if !rule.Spares() {
		return d.HeavyEntries
	}
	bytes := float64(rule.Ring.Buffers())*(float64(d.BloomBytes)+float64(d.Depth)*float64(d.Width)*float64(d.CellBits)/8) + 8*float64(d.HeavyEntries)
	more := min(bytes, MaxMemory) * SpareShare / 8 / heavyhitter.BucketEntries
	return d.HeavyEntries + int(more)*heavyhitter.BucketEntries
}

// HeapUnit returns what an allocation of so many bytes is rounded up to a multiple of,
// a power of two: whole pages above 32 KiB, and below them steps at which the runtime
// has a size class.
func HeapUnit(bytes int) int {
	switch {
	case bytes > 32<<10:
		return 8 << 10
	case bytes > 20<<10:
		return 4 << 10
	case bytes > 4<<10:
		return 2 << 10
	}
	return 1 << 10
}

// HeapBytes returns what an allocation of so many bytes takes.
func HeapBytes(bytes int) int {
	unit := HeapUnit(bytes)
	return (bytes + unit - 1) &^ (unit - 1)
}

package engine

import (
	"fmt"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Dimensions are those of a sketchlimit.Plan.
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
	// BucketBits are the bits of a bucket's cell, which is a time.
	BucketBits = 32
	// LastBytes are the bytes that a bucket's shard takes beside its cells.
	LastBytes = 8 * lastWords
	// ShardBytes are the bytes that a shard takes beside its memory.
	ShardBytes = int(unsafe.Sizeof(shard{}))
)

// Check refuses dimensions that no engine of the rule can have. Its errors name the field of a sketchlimit.Plan.
func (d *Dimensions) Check(rule *Rule) error {
	if d.Shards < 1 || d.Shards > MaxShards {
		return fmt.Errorf("sketchlimit: Plan.Shards %d, must be 1 … %d", d.Shards, MaxShards)
	}
	if err := algorithmOf(rule).check(d, rule); err != nil {
		return err
	}
	if _, err := cms.Words(d.Depth, d.Width, d.CellBits); err != nil && !d.doorsAlone(rule) {
		return fmt.Errorf("sketchlimit: Plan: %w", err)
	}
	if total := float64(d.Shards) * d.ShardMemory(rule); total > MaxMemory {
		return fmt.Errorf("sketchlimit: Plan of %.3g bytes, must be at most %d", total, MaxMemory)
	}
	return nil
}

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
	return float64(rule.Ring.Buffers())*generation + 8*float64(d.HeavyEntries+int(rule.extra))
}

// Bytes returns what an engine of checked dimensions takes of the heap, everything included.
func (d *Dimensions) Bytes(rule *Rule) (int, error) {
	l, err := newLayout(*rule, *d, 0)
	if err != nil {
		return 0, err
	}
	return SelfBytes + d.Shards*ShardBytes + HeapBytes(8*d.Shards*l.size), nil
}

// Bytes returns what the engine takes of the heap, everything included.
func (e *Engine) Bytes() int {
	return SelfBytes + len(e.shards)*ShardBytes + HeapBytes(8*len(e.memory))
}

// SelfBytes is what an Engine takes beside its shards.
const SelfBytes = (int(unsafe.Sizeof(Engine{})) + 31) &^ 31 // the runtime's size classes from 256 to 512 bytes

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

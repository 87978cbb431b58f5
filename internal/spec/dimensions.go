package spec

import (
	"fmt"
	"math"
	"slices"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Dimensions are those of a sketchlimit.Plan. Of a bucket Width are the lines of a
// shard's table, and Depth the entries of a line.
type Dimensions struct {
	Shards, BloomBytes, BloomProbes, Depth, Width, CellBits, HeavyEntries, PromoteAt int
}

const (
	// MaxShards is the most shards of an engine.
	MaxShards = 1 << 24
	// MaxWindow is the longest window, ns: sums of three windows fit an int64.
	MaxWindow = windowmath.MaxWindow
	// MaxMemory is the most bytes of an engine: 1 GiB, or 128 TiB where an int has 64
	// bits.
	MaxMemory = 1 << (30 + 17*(^uint(0)>>63))
	// StateBytes are those of a shard that may be over capacity, and of a bucket's: one
	// cache line.
	StateBytes = 64
	// BucketBits are the bits of a bucket's time.
	BucketBits = 32
)

// filtersAlone reports whether Bloom filters are all that counts.
func (d *Dimensions) filtersAlone(rule *Rule) bool {
	return d.Width == 0 && rule.Limit == 1 && d.BloomBytes > 0
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
	return float64(rule.Ring.Buffers())*generation + 8*float64(d.Entries(rule)+rule.StateWords())
}

// OverCapacityShare is the memory of a window that denies only proven keys over
// capacity, beside all that it has otherwise: entries in its table, for all that are
// above their limit when more come than planned.
const OverCapacityShare = 1. / 4

// Entries returns those of a shard's table.
func (d *Dimensions) Entries(rule *Rule) int {
	if !rule.DeniesProven() {
		return d.HeavyEntries
	}
	bytes := float64(rule.Ring.Buffers())*(float64(d.BloomBytes)+float64(d.Depth)*float64(d.Width)*float64(d.CellBits)/8) + 8*float64(d.HeavyEntries)
	more := min(bytes, MaxMemory) * OverCapacityShare / 8 / heavyhitter.BucketEntries
	return d.HeavyEntries + int(more)*heavyhitter.BucketEntries
}

// checkWindow refuses dimensions that no window can have.
func (d *Dimensions) checkWindow(rule *Rule) error {
	limit := int(rule.Limit)
	switch {
	case d.BloomBytes < bloom.BlockBytes || d.BloomBytes%bloom.BlockBytes != 0:
		return fmt.Errorf("sketchlimit: Plan.BloomBytes %d, must be a multiple of %d", d.BloomBytes, bloom.BlockBytes)
	case d.BloomProbes < 1 || d.BloomProbes > bloom.MaxProbes:
		return fmt.Errorf("sketchlimit: Plan.BloomProbes %d, must be 1 … %d", d.BloomProbes, bloom.MaxProbes)
	case d.filtersAlone(rule) && d.HeavyEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for Width 0", d.HeavyEntries)
	case d.filtersAlone(rule):
		return nil
	case d.HeavyEntries < 0 || d.HeavyEntries%heavyhitter.BucketEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be a multiple of %d", d.HeavyEntries, heavyhitter.BucketEntries)
	case d.HeavyEntries > 0 && rule.Ring.Buffers() > 2:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for %d SubWindows", d.HeavyEntries, rule.Ring.Buffers()-1)
	case d.HeavyEntries > 0 && !heavyhitter.Fits(limit):
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for Limit %d", d.HeavyEntries, limit)
	case d.HeavyEntries > 0 && d.PromoteAt < 1:
		return fmt.Errorf("sketchlimit: Plan.PromoteAt %d, must be at least 1", d.PromoteAt)
	case d.CellBits < CellBits(limit):
		return fmt.Errorf("sketchlimit: Plan.CellBits %d, must be at least %d for Limit %d", d.CellBits, CellBits(limit), limit)
	}
	return nil
}

// checkBucket refuses dimensions that no token bucket can have.
func (d *Dimensions) checkBucket(rule *Rule) error {
	switch {
	case d.BloomBytes != 0:
		return fmt.Errorf("sketchlimit: Plan.BloomBytes %d, must be 0 for a TokenBucket", d.BloomBytes)
	case d.HeavyEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for a TokenBucket", d.HeavyEntries)
	case d.CellBits != BucketBits:
		return fmt.Errorf("sketchlimit: Plan.CellBits %d, must be %d for a TokenBucket", d.CellBits, BucketBits)
	case !slices.Contains(timetable.Entries[:], d.Depth):
		return fmt.Errorf("sketchlimit: Plan.Depth %d, must be one of %v for a TokenBucket", d.Depth, timetable.Entries)
	case d.Width < 1 || d.Width > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Plan.Width %d, must be 1 … %d for a TokenBucket", d.Width, math.MaxInt32)
	case rule.Reach > (math.MaxUint32-rule.Bucket.Length)/rule.Bucket.Unit: // of a successor
		return fmt.Errorf("its times do not reach as far as %d units, which may be in use", rule.Reach)
	}
	return nil
}

// Check refuses dimensions that no engine of the rule can have. Its errors name the
// field of a sketchlimit.Plan.
func (d *Dimensions) Check(rule *Rule) error {
	if d.Shards < 1 || d.Shards > MaxShards {
		return fmt.Errorf("sketchlimit: Plan.Shards %d, must be 1 … %d", d.Shards, MaxShards)
	}
	check := d.checkWindow
	if rule.IsBucket() {
		check = d.checkBucket
	}
	if err := check(rule); err != nil {
		return err
	}
	if _, err := cms.Words(d.Depth, d.Width, d.CellBits); err != nil && !d.filtersAlone(rule) && !rule.IsBucket() {
		return fmt.Errorf("sketchlimit: Plan: %w", err)
	}
	if total := float64(d.Shards) * d.ShardMemory(rule); total > MaxMemory {
		return fmt.Errorf("sketchlimit: Plan of %.3g bytes, must be at most %d", total, MaxMemory)
	}
	return nil
}

package redislimit

import (
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
)

const (
	rows    = 4
	columns = 32 // of a block
	cells   = rows * columns
	// stampBytes of a block hold the number of its newest generation.
	stampBytes = 6
	// shardBytes is the most that a string may hold: with its header it fills one of
	// jemalloc's classes. Smaller ones spread better, and each takes some 150 bytes more.
	shardBytes = 16<<10 - 16
	// minShards spread a small limiter over a cluster.
	minShards = 16
)

// layout says where in Redis a key's cells are. A shard is a string of blocks. All cells of
// a key are in one block, so that one GETRANGE reads them: at 2 cells a key, blocks of
// 4 × 32 cells err no more than rows that are as long as the sketch.
type layout struct {
	algorithm sketchlimit.Algorithm
	kept      int    // generations
	cell      int    // bytes
	shards    uint64 // strings
	blocks    uint64 // of a shard
	seed      uint64
}

// newLayout returns the layout of a checked Config.
func newLayout(c *Config) (layout, error) {
	if err := c.checkSize(); err != nil {
		return layout{}, err
	}
	l := layout{algorithm: c.Algorithm, kept: 1, cell: cellBytes(c), seed: c.Seed}
	if c.Algorithm == sketchlimit.SlidingWindow {
		l.kept = 2
	}
	most := uint64(shardBytes / l.blockBytes())
	if c.Keys > 0 {
		all := (uint64(c.Keys)*cellsPerKey(c) + cells - 1) / cells
		l.shards = max(minShards, (all+most-1)/most)
		l.blocks = (all + l.shards - 1) / l.shards
		return l, nil
	}
	all := uint64(c.MemoryBytes / l.blockBytes())
	if all == 0 {
		return layout{}, fmt.Errorf("redislimit: MemoryBytes %d, must be at least %d for Limit %d", c.MemoryBytes, l.blockBytes(), c.Limit)
	}
	l.shards = max(min(minShards, all), (all+most-1)/most)
	l.blocks = all / l.shards
	return l, nil
}

// cellBytes returns the bytes of the narrowest cell that counts up to the limit, or of a time.
func cellBytes(c *Config) int {
	switch {
	case c.Algorithm == sketchlimit.TokenBucket || c.Limit > 1<<16-1:
		return 4
	case c.Limit > 1<<8-1:
		return 2
	}
	return 1
}

// cellsPerKey is what docs/redis.md measures.
func cellsPerKey(c *Config) uint64 {
	if c.Algorithm == sketchlimit.TokenBucket {
		return 1
	}
	return 2
}

func (l *layout) blockBytes() int { return l.kept*cells*l.cell + stampBytes }

// size returns the bytes of a shard.
func (l *layout) size() int { return int(l.blocks) * l.blockBytes() }

// names returns the shards' names. What is in braces chooses the node of a cluster. All
// limiters have other names that would misread each other: unit is what a generation's
// number counts.
func (l *layout) names(prefix, unit string) []string {
	names := make([]string, l.shards)
	for i := range names {
		names[i] = fmt.Sprintf("%s:{%d}:%v:%s:%dx%dx%d:%x", prefix, i, l.algorithm, unit,
			l.shards, l.blocks, l.cell, mix(l.seed)>>32)
	}
	return names
}

// place is where a key's cells are.
type place struct {
	shard  uint64
	offset uint64 // of the block, bytes
	// In row i the column is (columns[2i] + generation × columns[2i+1]) mod 32: keys that
	// meet in one generation do not in the next.
	columns [2 * rows]byte
}

func (l *layout) place(key string) (p place) {
	h := mix(xxhash.Sum64String(key) + mix(l.seed))
	block, _ := bits.Mul64(h, l.shards*l.blocks)
	p.shard, p.offset = block/l.blocks, block%l.blocks*uint64(l.blockBytes())
	h = mix(h)
	for i := range p.columns {
		p.columns[i] = byte(h % columns)
		h /= columns
	}
	return p
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014, variant 13 of
// Stafford's).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

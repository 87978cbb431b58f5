package redislimit

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"

	"github.com/sketchlimit/sketchlimit"
)

const (
	rows = 4
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
// 4 × 32 cells err no more than rows that are as long as the sketch. Where cells are wide
// there are fewer of them, and blocks of 4 × 64 spread exhausted keys more evenly.
type layout struct {
	algorithm sketchlimit.Algorithm
	kept      int    // generations
	cell      int    // bytes
	columns   uint64 // of a block, a power of two
	shards    uint64 // strings
	blocks    uint64 // of a shard
	seed      uint64
	hash      sketchlimit.Hash
	keyed     bool // hash is the default one, which follows from the seed
}

// newLayout returns the layout of a checked Config.
func newLayout(c *Config) (layout, error) {
	if err := c.checkSize(); err != nil {
		return layout{}, err
	}
	l := layout{algorithm: c.Algorithm, kept: 1, columns: 32, hash: c.Hash, keyed: c.Hash == nil}.under(c.Seed)
	var err error
	if l.cell, err = cellBytes(c); err != nil {
		return layout{}, err
	}
	if c.Algorithm != sketchlimit.TokenBucket && l.cell > 1 {
		l.columns = 64
	}
	if c.Algorithm == sketchlimit.SlidingWindow {
		l.kept = 2
	}
	most := uint64(shardBytes / l.blockBytes())
	if c.Keys > 0 {
		all := (cellsFor(c) + l.cells() - 1) / l.cells()
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

// under returns the layout under a seed.
func (l layout) under(seed uint64) layout {
	l.seed = mix(seed)
	if l.keyed {
		l.hash = sketchlimit.KeyedHash(seed)
	}
	return l
}

// cellBytes returns the bytes of the narrowest cell that counts up to the limit, or of a time.
func cellBytes(c *Config) (int, error) {
	if c.Algorithm == sketchlimit.TokenBucket {
		b, err := newBucket(c)
		return b.cell, err
	}
	return (bits.Len(uint(max(c.Limit, c.HighestLimit))) + 7) / 8, nil
}

// sizes are the cells of each generation that a key takes, by the lowest limit they do for:
// in a simulation of these blocks (BenchmarkSizes) innocent keys were denied less than once in 1e5 requests, of
// which each key sent five a window, and one key in a hundred three times its limit. Where the
// limit is near five every key comes close to it, and few cells may be shared. Above, the more
// units a key has the more keys share a cell before they add up to half of it. notes/redis.md
// has what Redis denies.
var sizes = []struct {
	limit                  int
	sliding, fixed, bucket float64
}{
	{1, 300, 240, 190},
	{5, 65, 80, 32},
	{8, 28, 12, 6},
	{10, 11, 5, 3.5},
	{16, 3.5, 2, 1.2},
	{20, 2, 2, 1},
	{1 << 8, 1.2, 1.2, 1},
}

// cellsFor returns how many cells of each generation hold the keys.
func cellsFor(c *Config) uint64 {
	i, lowest := len(sizes)-1, cmp.Or(c.LowestLimit, c.Limit)
	for sizes[i].limit > lowest {
		i--
	}
	each := [...]float64{sizes[i].sliding, sizes[i].fixed, sizes[i].bucket}[c.Algorithm]
	return uint64(math.Ceil(each * float64(c.Keys)))
}

// cells returns how many cells of a generation a block has.
func (l *layout) cells() uint64 { return rows * l.columns }

func (l *layout) blockBytes() int { return l.kept*int(l.cells())*l.cell + stampBytes }

// size returns the bytes of a shard.
func (l *layout) size() int { return int(l.blocks) * l.blockBytes() }

// constants returns what the windows' script must know.
func (l *layout) constants() string {
	read, write := "string.byte", "string.char"
	if l.cell > 1 {
		read = fmt.Sprintf("function(s, place) return (struct.unpack('>I%d', s, place)) end", l.cell)
		write = fmt.Sprintf("function(count) return struct.pack('>I%d', count) end", l.cell)
	}
	return fmt.Sprintf("local kept, columns, cell, size = %d, %d, %d, %d\nlocal read, write = %s, %s\n",
		l.kept, l.columns, l.cell, l.size(), read, write)
}

// names returns the shards' names. What is in braces chooses the node of a cluster. All
// limiters have other names that would misread each other: unit is what a generation's
// number counts.
func (l *layout) names(prefix, unit string) []string {
	secret := l.sum("") >> 32
	names := make([]string, l.shards)
	for i := range names {
		names[i] = fmt.Sprintf("%s:{%d}:%v:%s:%dx%dx%d:%x", prefix, i, l.algorithm, unit,
			l.shards, l.blocks, l.cell, secret)
	}
	return names
}

// place is where a key's cells are.
type place struct {
	shard  uint64
	offset uint64 // of the block, bytes
	// In row i the column is (columns[2i] + generation × columns[2i+1]) mod layout.columns:
	// keys that meet in one generation do not in the next.
	columns [2 * rows]byte
}

// sum returns the bits of a key that choose its place.
func (l *layout) sum(key string) uint64 { return mix(l.hash.Sum64([]byte(key)) + l.seed) }

func (l *layout) place(key string) (p place) {
	h := l.sum(key)
	block, _ := bits.Mul64(h, l.shards*l.blocks)
	p.shard, p.offset = block/l.blocks, block%l.blocks*uint64(l.blockBytes())
	h = mix(h)
	for i := range p.columns {
		p.columns[i] = byte(h % l.columns)
		h /= l.columns
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

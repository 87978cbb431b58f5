package sketchlimit

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// Plan is the dimensions of a [Limiter], and what they lead to if [Tune] has chosen them. Each
// shard holds for every generation a doorkeeper and a sketch of Depth × Width cells.
type Plan struct {
	Shards         int // locks, and parts of the memory; 1 … 1<<24
	BloomBytes     int // of one doorkeeper, a multiple of 64; 0 where the algorithm is TokenBucket
	BloomProbes    int // bits a key sets in it, 1 … bloom.MaxProbes
	Depth          int // rows of one sketch, 1 … cms.MaxDepth
	Width          int // cells in a row; 0 only where Limit is 1 and doorkeepers of windows count alone
	HeavyEntries   int // of one shard's table of heavy keys, a multiple of 8; 0 where there is none
	HeavyThreshold int // units in a generation from which a key counts as heavy
	CellBits       int // 4, 8, 16 or 32; a cell must be able to hold Limit − 1, a TokenBucket's is 32

	Forecast *Forecast `json:",omitempty"` // what Tune expects of it; nil if nobody knows. New does not look at it
}

const (
	maxShards = 1 << 24
	maxWindow = 1 << 61 // ns: sums of three windows fit an int64
	maxKeys   = math.MaxInt32
	maxMemory = 1 << (30 + 17*(^uint(0)>>63)) // bytes: 1 GiB, or 128 TiB where an int has 64 bits

	// smallestLines is the cache lines of the smallest generation of a shard: one
	// for the doorkeeper, one for the sketch.
	smallestLines = 2

	defaultFalseDenialRate = 1e-5
)

// check refuses what New could not build, field by field.
func (c *Config) check() error {
	subWindows := max(c.SubWindows, 1)
	switch {
	case c.Limit < 1 || c.Limit > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Limit %d, must be 1 … %d", c.Limit, math.MaxInt32)
	case c.LowestLimit < 0 || c.LowestLimit > c.Limit:
		return fmt.Errorf("sketchlimit: LowestLimit %d, must be 0 … Limit %d", c.LowestLimit, c.Limit)
	case c.Window < time.Millisecond || c.Window > maxWindow:
		return fmt.Errorf("sketchlimit: Window %v, must be 1ms … %v", c.Window, time.Duration(maxWindow))
	case c.Algorithm < SlidingWindow || c.Algorithm > TokenBucket:
		return fmt.Errorf("sketchlimit: Algorithm %d, must be SlidingWindow, FixedWindow or TokenBucket", int(c.Algorithm))
	case c.Burst < 0 || c.Burst > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Burst %d, must be 0 … %d", c.Burst, math.MaxInt32)
	case c.Burst > 0 && c.Algorithm != TokenBucket:
		return fmt.Errorf("sketchlimit: Burst %d, goes with TokenBucket only", c.Burst)
	case c.fills() > maxWindow:
		return fmt.Errorf("sketchlimit: Burst %d, must fill within %v at %d per %v", c.Burst, time.Duration(maxWindow), c.Limit, c.Window)
	case c.SubWindows < 0:
		return fmt.Errorf("sketchlimit: SubWindows %d, must be at least 0", c.SubWindows)
	case c.SubWindows > 1 && c.Algorithm != SlidingWindow:
		return fmt.Errorf("sketchlimit: SubWindows %d, goes with SlidingWindow only", c.SubWindows)
	case c.Window%time.Duration(subWindows) != 0:
		return fmt.Errorf("sketchlimit: SubWindows %d, must cut Window %v into whole nanoseconds", c.SubWindows, c.Window)
	case c.Window/time.Duration(subWindows) < time.Millisecond:
		return fmt.Errorf("sketchlimit: SubWindows %d, must leave at least 1ms each of Window %v", c.SubWindows, c.Window)
	}
	return c.checkSize()
}

func (c *Config) checkSize() error {
	switch {
	case c.Keys < 0 || c.Keys > maxKeys:
		return fmt.Errorf("sketchlimit: Keys %d, must be 0 … %d", c.Keys, maxKeys)
	case c.MemoryBytes < 0 || c.MemoryBytes > maxMemory:
		return fmt.Errorf("sketchlimit: MemoryBytes %d, must be 0 … %d", c.MemoryBytes, maxMemory)
	case c.Keys == 0 && c.MemoryBytes == 0 && c.Plan == nil:
		return fmt.Errorf("sketchlimit: one of Keys, MemoryBytes and Plan must be set")
	case c.Plan != nil && c.Keys != 0:
		return fmt.Errorf("sketchlimit: Keys %d with a Plan, only one of them may be set", c.Keys)
	case c.Plan != nil && c.MemoryBytes != 0:
		return fmt.Errorf("sketchlimit: MemoryBytes %d with a Plan, only one of them may be set", c.MemoryBytes)
	case c.FalseDenialRate != 0 && !(c.FalseDenialRate >= leastRate && c.FalseDenialRate < 1):
		return fmt.Errorf("sketchlimit: FalseDenialRate %v, must be %g … below 1", c.FalseDenialRate, leastRate)
	case c.FalseDenialRate != 0 && (c.Keys == 0 || c.MemoryBytes != 0) && c.Overload != Grow:
		return fmt.Errorf("sketchlimit: FalseDenialRate %v, goes with Keys alone", c.FalseDenialRate)
	case c.Overload != Deny && c.Overload != Grow:
		return fmt.Errorf("sketchlimit: Overload %d, must be Deny or Grow", int(c.Overload))
	case c.Overload == Grow && c.Algorithm == TokenBucket:
		return fmt.Errorf("sketchlimit: Overload %v, goes with windows only", c.Overload)
	case c.Overload == Deny && c.MaxMemoryBytes != 0:
		return fmt.Errorf("sketchlimit: MaxMemoryBytes %d, goes with Overload Grow alone", c.MaxMemoryBytes)
	}
	return nil
}

// lowest returns the lowest limit that a request may come with.
func (c *Config) lowest() int {
	if c.LowestLimit == 0 {
		return c.Limit
	}
	return c.LowestLimit
}

// lowestUnits returns the units that the lowest limit admits at once.
func (c *Config) lowestUnits() int {
	if c.Algorithm != TokenBucket {
		return c.lowest()
	}
	b, _ := c.bucket()
	return int(b.most(int64(c.lowest()), int64(c.Limit)))
}

// generations returns how many generations the limiter keeps.
func (c *Config) generations() int {
	if c.Algorithm != SlidingWindow {
		return 1
	}
	return max(c.SubWindows, 1) + 1
}

// generation returns the length of a generation.
func (c *Config) generation() time.Duration {
	if c.Algorithm == TokenBucket {
		_, generation := c.bucket()
		return generation
	}
	return c.Window / time.Duration(max(c.SubWindows, 1))
}

// goal returns the false-denial rate that the limiter is for.
func (c *Config) goal() float64 {
	if c.FalseDenialRate == 0 {
		return defaultFalseDenialRate
	}
	return c.FalseDenialRate
}

// planned is what a limiter was made for.
type planned struct {
	keys float64 // distinct ones in a window, 0 if nobody said
	rate float64 // of false denials
}

func (c *Config) planned() planned {
	p := planned{float64(c.Keys), c.goal()}
	if c.Plan != nil && c.Plan.Forecast != nil {
		p.keys = c.Plan.Forecast.Keys
		p.rate = max(p.rate, c.Plan.Forecast.Stated().FalseDenialRate)
	}
	if c.Overload == Grow { // it makes itself for as many as there are
		p.keys = 0
	}
	return p
}

// window returns the arithmetic that the limiter goes by.
func (c *Config) window() window {
	w := window{limit: int64(c.Limit), length: int64(c.generation()), generations: c.generations()}
	if c.Algorithm == TokenBucket {
		w.bucket, _ = c.bucket()
	}
	return w
}

// coarse tells whether times may be late by [Resolution]: what flows back in that time is
// little of the whole.
func (c *Config) coarse() bool {
	if c.Algorithm == TokenBucket {
		w := c.window()
		return w.bucket.takes(w.bucket.burst, w.limit) >= int64(100*Resolution)
	}
	return c.generation() >= 100*Resolution
}

// plan chooses the dimensions, or checks those given.
func (c *Config) plan() (Plan, error) {
	if c.Plan != nil && c.Algorithm == TokenBucket {
		return *c.Plan, c.Plan.checkBucket()
	}
	if c.Plan != nil {
		return *c.Plan, c.Plan.check(c.Limit, c.generations())
	}
	memory := c.MemoryBytes
	if memory == 0 {
		var err error
		if memory, err = c.memoryFor(c.Keys); err != nil {
			return Plan{}, err
		}
	}
	return c.planFor(memory)
}

func (p *Plan) check(limit, generations int) error {
	_, heavyFits := heavyBits(limit)
	switch {
	case p.Shards < 1 || p.Shards > maxShards:
		return fmt.Errorf("sketchlimit: Plan.Shards %d, must be 1 … %d", p.Shards, maxShards)
	case p.BloomBytes < bloom.BlockBytes || p.BloomBytes%bloom.BlockBytes != 0:
		return fmt.Errorf("sketchlimit: Plan.BloomBytes %d, must be a multiple of %d", p.BloomBytes, bloom.BlockBytes)
	case p.BloomProbes < 1 || p.BloomProbes > bloom.MaxProbes:
		return fmt.Errorf("sketchlimit: Plan.BloomProbes %d, must be 1 … %d", p.BloomProbes, bloom.MaxProbes)
	case p.Width == 0 && limit == 1 && p.HeavyEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for Width 0", p.HeavyEntries)
	case p.Width == 0 && limit == 1:
		return p.checkTotal(generations)
	case p.HeavyEntries < 0 || p.HeavyEntries%heavyBucket != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be a multiple of %d", p.HeavyEntries, heavyBucket)
	case p.HeavyEntries > 0 && generations > 2:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for %d SubWindows", p.HeavyEntries, generations-1)
	case p.HeavyEntries > 0 && !heavyFits:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for Limit %d", p.HeavyEntries, limit)
	case p.HeavyEntries > 0 && p.HeavyThreshold < 1:
		return fmt.Errorf("sketchlimit: Plan.HeavyThreshold %d, must be at least 1", p.HeavyThreshold)
	case p.CellBits < cellBits(limit):
		return fmt.Errorf("sketchlimit: Plan.CellBits %d, must be at least %d for Limit %d", p.CellBits, cellBits(limit), limit)
	}
	if _, err := cms.Words(p.Depth, p.Width, p.CellBits); err != nil {
		return fmt.Errorf("sketchlimit: Plan: %w", err)
	}
	return p.checkTotal(generations)
}

// checkBucket is check for a sketch of times.
func (p *Plan) checkBucket() error {
	switch {
	case p.Shards < 1 || p.Shards > maxShards:
		return fmt.Errorf("sketchlimit: Plan.Shards %d, must be 1 … %d", p.Shards, maxShards)
	case p.BloomBytes != 0:
		return fmt.Errorf("sketchlimit: Plan.BloomBytes %d, must be 0 for a TokenBucket", p.BloomBytes)
	case p.HeavyEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for a TokenBucket", p.HeavyEntries)
	case p.CellBits != bucketBits:
		return fmt.Errorf("sketchlimit: Plan.CellBits %d, must be %d for a TokenBucket", p.CellBits, bucketBits)
	}
	if _, err := cms.Words(p.Depth, p.Width, p.CellBits); err != nil {
		return fmt.Errorf("sketchlimit: Plan: %w", err)
	}
	return p.checkTotal(1)
}

func (p *Plan) checkTotal(generations int) error {
	if total := float64(p.Shards) * p.shardBytes(generations); total > maxMemory {
		return fmt.Errorf("sketchlimit: Plan of %.3g bytes, must be at most %d", total, maxMemory)
	}
	return nil
}

// shardBytes returns the bytes of a shard's memory.
func (p *Plan) shardBytes(generations int) float64 {
	bytes := float64(generations)*(float64(p.BloomBytes)+float64(p.Depth)*float64(p.Width)*float64(p.CellBits)/8) + 8*float64(p.HeavyEntries)
	if p.BloomBytes == 0 { // a TokenBucket
		bytes += float64(lastBytes)
	}
	return bytes
}

// cellBits returns the narrowest cell that counts up to limit, less the unit that
// the doorkeeper counts.
func cellBits(limit int) int {
	for bits := 4; ; bits *= 2 {
		if int64(limit)-1 < 1<<bits {
			return bits
		}
	}
}

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
	// bucketBits are the bits of a time.
	bucketBits = 32
	// lastBytes are those of a lastRounded.
	lastBytes = 8 * lastWords
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
func (c *Config) probes(blocks int) int {
	switch {
	case c.Limit == 1 && c.Keys > 0:
		probes, _ := bloom.Best(float64(c.Keys) / float64(blocks))
		return probes
	case c.Limit == 1:
		return 8
	case c.lowest() <= 16:
		return 4
	}
	return 3
}

// shape is how memory is spent.
type shape struct {
	depth     int     // rows of a sketch
	probes    int     // of the doorkeepers
	door      float64 // share of a generation that its doorkeeper takes
	heavy     float64 // share of everything that the table of heavy keys takes
	threshold int
}

// shape returns what limits are about right with, and buckets and a limit of 1 in any case.
func (c *Config) shape(memory int) shape {
	s := shape{depth: depth, door: 1. / doorShare, threshold: max(1, min(heavyThreshold, c.lowest()/3))}
	if c.heavyTable() {
		s.heavy, s.door = 1./heavyShare, 1./doorShareBesideHeavy
	}
	s.probes = c.probes(max(1, memory/bloom.BlockBytes/c.generations()))
	return s
}

// planFor spends the memory: as Tune would for the traffic that Keys and a rate stand for, and
// otherwise, also where it may become more, as has been measured to be about right.
func (c *Config) planFor(memory int) (Plan, error) {
	if row, _ := c.sized(); row != nil && c.MemoryBytes == 0 && c.Overload == Deny {
		how, _, err := c.sizedFor(c.Keys)
		if err != nil {
			return Plan{}, err
		}
		return c.spend(memory, how)
	}
	return c.spend(memory, c.shape(memory))
}

// spend spends the memory: as many shards as have generationBytes for each generation, in each a
// part for the doorkeepers, a part for the heavy table where there is one, the rest
// for cells.
func (c *Config) spend(memory int, s shape) (Plan, error) {
	generations := c.generations()
	memory -= fixedBytes
	shards := min(max(memory/(generations*generationBytes), 1), maxShards)
	memory -= shards * int(unsafe.Sizeof(shard{}))
	bytes := memory &^ (heapUnit(memory) - 1) / shards
	if c.Algorithm == TokenBucket {
		bytes -= lastBytes
	}
	p := Plan{Shards: shards, CellBits: cellBits(c.Limit), Depth: s.depth, BloomProbes: s.probes}
	if s.heavy > 0 && c.heavyTable() {
		p.HeavyEntries = int(float64(bytes)*s.heavy) / (8 * heavyBucket) * heavyBucket
		p.HeavyThreshold = s.threshold
		bytes -= 8 * p.HeavyEntries
	}
	lines := bytes / generations / bloom.BlockBytes
	if lines < smallestLines {
		return Plan{}, fmt.Errorf("sketchlimit: MemoryBytes %d, must be at least %d to hold one shard",
			c.MemoryBytes, c.smallest())
	}
	doorLines := lines
	switch {
	case c.Algorithm == TokenBucket:
		doorLines, p.BloomProbes, p.CellBits = 0, 0, bucketBits
	case c.Limit > 1:
		doorLines = min(max(1, int(float64(lines)*s.door)), lines-1)
		doorLines, p.BloomProbes = c.telling(doorLines, lines, shards, p.BloomProbes)
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
func (c *Config) telling(doorLines, lines, shards, probes int) (int, int) {
	if c.Keys == 0 {
		return doorLines, probes
	}
	marks := float64(c.Keys) / float64(shards*bloom.BlockBytes*8) / mostMarks // a line, by one probe, of those that it bears
	doorLines = max(doorLines, min(int(math.Ceil(marks)), lines/2))
	return doorLines, max(1, min(probes, int(float64(doorLines)/marks)))
}

// heavyTable tells whether a table of heavy keys pays. Cells of 4 bits do as well
// without, and beyond two generations or a word's width there is none.
func (c *Config) heavyTable() bool {
	_, fits := heavyBits(c.Limit)
	return fits && c.generations() <= 2 && c.Limit > 16 && c.Algorithm != TokenBucket
}

// smallest returns the least memory that makes a limiter.
func (c *Config) smallest() int {
	bytes := c.generations() * smallestLines * bloom.BlockBytes
	if c.Algorithm == TokenBucket {
		bytes += lastBytes
	}
	for c.heavyTable() && bytes-bytes/heavyShare/64*64 < c.generations()*smallestLines*bloom.BlockBytes {
		bytes += 8
	}
	return fixedBytes + int(unsafe.Sizeof(shard{})) + heapBytes(bytes)
}

// heapUnit returns what an allocation of so many bytes is rounded up to a multiple of,
// a power of two: whole pages above 32 KiB, and below them steps at which the runtime
// has a size class.
func heapUnit(bytes int) int {
	switch {
	case bytes > 32<<10:
		return 8 << 10
	case bytes > 20<<10:
		return 4 << 10
	case bytes > 8<<10:
		return 2 << 10
	}
	return 1 << 10
}

// heapBytes returns what an allocation of so many bytes takes.
func heapBytes(bytes int) int {
	unit := heapUnit(bytes)
	return (bytes + unit - 1) &^ (unit - 1)
}

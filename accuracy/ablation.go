package accuracy

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/exact"
)

// Ablation is what the arrangements of [Ablate] have in common.
type Ablation struct {
	Limit       int           `json:"limit"` // units per key and window, 1 … 1<<31-1
	Window      time.Duration `json:"window_ns"`
	MemoryBytes int           `json:"memory_bytes"` // for everything, the same for all: 4096 … 1<<31-1
	Seed        uint64        `json:"seed"`         // 0 counts as 1: an ablation is always reproducible
}

// AblationRow is one arrangement, what it changes against the row above, and how it
// did.
type AblationRow struct {
	Step   string `json:"step"`   // "published", "sketch_only", "conservative", "narrow_cells", "doorkeeper", "sketchlimit"
	Change string `json:"change"` // in words
	Layout string `json:"layout"` // "Bloom filter 16384 B, 4 × 3072 cells of 32 bits"
	Verdict
	Sample Sample `json:"sample"` // the keys judged
}

// Ablate takes the arrangement that is often published and improves it step by
// step, at equal memory, each with fixed windows, so that one exact algorithm
// judges them all. The steps:
//
//	published     a Bloom filter is asked whether the key was seen, and only then is the
//	              estimate of a plain count-min sketch of 32-bit cells held against the
//	              limit; what is admitted goes into both, and both are cleared together
//	sketch_only   no Bloom filter, its bytes go to the sketch
//	conservative  cells are raised to minimum + n only, and never past the limit
//	narrow_cells  cells as narrow as the limit allows, and so many more of them
//	doorkeeper    a Bloom filter that counts the first unit, which the sketch never sees
//	sketchlimit   this library's FixedWindow limiter as it is
//
// The published code multiplies a 32-bit string hash with a seed for each row, so that
// keys that collide in one row collide in all. Here every arrangement hashes with
// xxhash and independent rows: it is the arrangements that are compared.
//
// Long streams are judged on a [Sample] of their keys, as by [Sweep].
func Ablate(ctx context.Context, src Source, a Ablation, o Options) ([]AblationRow, error) {
	or(&a.Seed, 1)
	if err := a.check(); err != nil {
		return nil, err
	}
	steps := a.steps()
	contests := make([]Contest, len(steps))
	for i, s := range steps {
		contests[i] = Contest{a.Limit, a.Window, s.build, func() (exact.Limiter, error) {
			return exact.NewFixedWindow(a.Limit, a.Window)
		}}
	}
	trials, lone, err := race(ctx, src, contests, o)
	if err != nil {
		return nil, err
	}
	rows := make([]AblationRow, len(steps))
	for i, t := range trials {
		rows[i] = AblationRow{steps[i].name, steps[i].change, layoutOf(t.limiter), t.verdict(lone), t.sample()}
	}
	return rows, nil
}

func (a *Ablation) check() error {
	if a.MemoryBytes < 4096 || a.MemoryBytes > math.MaxInt32 {
		return fmt.Errorf("accuracy: ablation: %d bytes of memory, must be 4096 … 1<<31-1", a.MemoryBytes)
	}
	_, err := exact.NewFixedWindow(a.Limit, a.Window)
	return err
}

// step is a row of the table to be.
type step struct {
	name, change string
	build        func(clock func() time.Time) (Limiter, error)
}

func (a *Ablation) steps() []step {
	// A quarter of the bytes for the Bloom filter wherever there is one. The
	// doorkeeper of a limit of 1 needs them all: it counts everything.
	const full, doorShare, none = 32, 4, 0
	filterShare := doorShare
	if a.Limit == 1 {
		filterShare = 1
	}
	build := func(share, bits int, rule rule) func(func() time.Time) (Limiter, error) {
		return func(func() time.Time) (Limiter, error) { return a.arrange(share, bits, rule) }
	}
	return []step{
		{"published", "Bloom filter test, then all requests into a plain count-min sketch", build(doorShare, full, published)},
		{"sketch_only", "no Bloom filter, all memory to the sketch", build(none, full, plainSketch)},
		{"conservative", "conservative update that stops at the limit", build(none, full, conservative)},
		{"narrow_cells", "cells as narrow as the limit allows", build(none, narrowest(a.Limit), conservative)},
		{"doorkeeper", "a Bloom filter that counts the first unit", build(filterShare, narrowest(a.Limit-1), doorkeeper)},
		{"sketchlimit", "this library's limiter as it is", func(clock func() time.Time) (Limiter, error) {
			return sketchlimit.New(sketchlimit.Config{
				Limit: a.Limit, Window: a.Window, Algorithm: sketchlimit.FixedWindow,
				MemoryBytes: a.MemoryBytes, Seed: a.Seed, Clock: clock,
			})
		}},
	}
}

// narrowest is the number of bits of the smallest cell that can hold limit.
func narrowest(limit int) int {
	for _, bits := range []int{4, 8, 16} {
		if limit < 1<<bits {
			return bits
		}
	}
	return 32
}

// arrangement is a fixed-window limiter put together from the published parts.
type arrangement struct {
	limit   int
	seed    uint64
	windows windowClock
	filter  *bloom.Filter // nil: none
	sketch  *cms.Sketch   // nil: none
	admit   rule
	layout  string
}

// A rule answers whether n more units, 1 … limit, of the key with hash h are admitted,
// and counts them if so. count is what it then holds against the key, or held and
// holds on if they are not.
type rule func(a *arrangement, h uint64, n int) (count int, ok bool)

const (
	rows    = 4
	probes  = 4
	headers = 256 // bytes that filter and sketch take beside bits and cells, at most
)

// arrange spends the bytes: one part in filterShare for the filter (0: none, 1: all),
// the rest for the sketch.
func (a *Ablation) arrange(filterShare, bits int, rule rule) (*arrangement, error) {
	r := &arrangement{limit: a.Limit, seed: a.Seed, windows: windowClock{length: int64(a.Window)}, admit: rule}
	left := a.MemoryBytes - headers
	var err error
	if filterShare > 0 {
		bytes := left / filterShare / bloom.BlockBytes * bloom.BlockBytes
		if r.filter, err = bloom.NewBytes(bytes, probes); err != nil {
			return nil, err
		}
		r.layout = fmt.Sprintf("Bloom filter %d B", bytes)
		left -= bytes
	}
	if filterShare != 1 {
		width := left / rows / 8 * 8 * 8 / bits // rows are whole words
		if r.sketch, err = cms.New(rows, width, bits); err != nil {
			return nil, err
		}
		if r.layout != "" {
			r.layout += ", "
		}
		r.layout += fmt.Sprintf("%d × %d cells of %d bits", rows, width, bits)
	}
	return r, nil
}

// TakeAt is isRequestAllowed of the published code, for n units where that knows one
// only: the window has turned if it has, and then it is up to the rule.
func (a *arrangement) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	if a.windows.turn(now) {
		a.clear()
	}
	h := mix(xxhash.Sum64String(key) ^ a.seed)
	count, ok := a.limit, false
	if n >= 1 && n <= a.limit {
		count, ok = a.admit(a, h, n)
	}
	return sketchlimit.Decision{Allowed: ok, Limit: a.limit, Remaining: max(a.limit-count, 0)}
}

func (a *arrangement) clear() {
	if a.filter != nil {
		a.filter.Clear()
	}
	if a.sketch != nil {
		a.sketch.Clear()
	}
}

// MemoryBytes is what filter and sketch take.
func (a *arrangement) MemoryBytes() (bytes int) {
	if a.filter != nil {
		bytes += a.filter.MemoryBytes()
	}
	if a.sketch != nil {
		bytes += a.sketch.MemoryBytes()
	}
	return bytes
}

// published: bloomFilter.mightContain(userId) && estimateCount(userId) >= maxRequests
// refuses; whatever passes is added to both. For one unit ">= limit" is "+ n > limit".
func published(a *arrangement, h uint64, n int) (int, bool) {
	count := 0
	if a.filter.Test(h) {
		if count = int(a.sketch.Estimate(h)); count+n > a.limit {
			return count, false
		}
	}
	a.filter.Add(h)
	a.sketch.Add(h, uint32(n))
	return count + n, true
}

func plainSketch(a *arrangement, h uint64, n int) (int, bool) {
	count := int(a.sketch.Estimate(h))
	if count+n > a.limit {
		return count, false
	}
	a.sketch.Add(h, uint32(n))
	return count + n, true
}

func conservative(a *arrangement, h uint64, n int) (int, bool) {
	count, ok := a.sketch.AddBounded(h, uint32(n), uint32(a.limit))
	return int(count), ok
}

// doorkeeper: being in the filter is the first unit, the sketch holds those after it.
func doorkeeper(a *arrangement, h uint64, n int) (int, bool) {
	seen := a.filter.Test(h)
	rest := n
	if !seen {
		rest--
	}
	first := n - rest
	if rest > 0 {
		count, ok := 0, false
		if a.sketch != nil {
			var c uint32
			c, ok = a.sketch.AddBounded(h, uint32(rest), uint32(a.limit-1))
			count = int(c)
		}
		if !ok {
			return count + 1 - first, false
		}
		a.filter.Add(h)
		return count + 1, true
	}
	a.filter.Add(h)
	return 1, true
}

// layoutOf describes a limiter's structures.
func layoutOf(l Limiter) string {
	switch l := l.(type) {
	case *arrangement:
		return l.layout
	case interface{ Plan() sketchlimit.Plan }:
		p := l.Plan()
		layout := fmt.Sprintf("%d shards of: Bloom filter %d B, %d × %d cells of %d bits", p.Shards, p.BloomBytes, p.Depth, p.Width, p.CellBits)
		if p.HeavyEntries > 0 {
			layout += fmt.Sprintf(", table of %d heavy keys", p.HeavyEntries)
		}
		return layout
	}
	return ""
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): it spreads the
// seed over all bits of the hash.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

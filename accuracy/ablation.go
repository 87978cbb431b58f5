package accuracy

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/published"
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
	Step   string `json:"step"`   // "published", "sketch_only", "conservative", "narrow_cells", "Bloom filter", "sketchlimit"
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
//	Bloom filter    a Bloom filter that counts the first unit, which the sketch never sees
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
	// Bloom filter of a limit of 1 needs them all: it counts everything.
	const full, doorShare, none = 32, 4, 0
	filterShare := doorShare
	if a.Limit == 1 {
		filterShare = 1
	}
	c := published.Config{Limit: a.Limit, Window: a.Window, MemoryBytes: a.MemoryBytes, Seed: a.Seed}
	build := func(share, bits int, rule published.Rule) func(func() time.Time) (Limiter, error) {
		return func(func() time.Time) (Limiter, error) { return published.New(c, share, bits, rule) }
	}
	return []step{
		{"published", "Bloom filter test, then all requests into a plain count-min sketch", build(doorShare, full, published.Published)},
		{"sketch_only", "no Bloom filter, all memory to the sketch", build(none, full, published.PlainSketch)},
		{"conservative", "conservative update that stops at the limit", build(none, full, published.Conservative)},
		{"narrow_cells", "cells as narrow as the limit allows", build(none, narrowest(a.Limit), published.Conservative)},
		{"Bloom filter", "a Bloom filter that counts the first unit", build(filterShare, narrowest(a.Limit-1), published.FirstUnitInFilter)},
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

// layoutOf describes a limiter's structures.
func layoutOf(l Limiter) string {
	switch l := l.(type) {
	case *published.Arrangement:
		return l.Layout()
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

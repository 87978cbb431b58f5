package tune

import (
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// window is a rule with the figures that simulations look at all the time.
type window struct {
	spec.Rule
	limit       int64
	length      int64 // of a generation, ns
	generations int
}

func newWindow(rule spec.Rule) window {
	return window{rule, rule.Limit, rule.Timeline.Length(), rule.Generations()}
}

// shards is a few shards of a plan, real ones, that get a share of the traffic.
type shards struct {
	engine *engine.Engine
	window
	dims   spec.Dimensions
	hasher keyhash.Hasher
	latest int64 // generation
}

// newShards returns shards of checked dimensions.
func newShards(rule spec.Rule, d spec.Dimensions, seed uint64) *shards {
	e, err := engine.New(rule, d, seed, new(striped.Counter))
	if err != nil {
		panic(err) // the dimensions have been chosen for this rule
	}
	return &shards{engine: e, window: newWindow(rule), dims: d, hasher: keyhash.Hasher{}.Reseeded(seed)}
}

// at returns the position of a time, ns, which is taken as no earlier than the latest
// generation.
func (p *shards) at(now int64) rotating.Position {
	at := p.window.Timeline.Position(now)
	if at.Generation < p.latest {
		return rotating.Position{Generation: p.latest}
	}
	p.latest = at.Generation
	return at
}

func (p *shards) take(now int64, key []byte, n int64) spec.Verdict {
	return p.engine.Take(p.window.Timeline.Pack(p.at(now)), p.hasher.Bytes(key), int(n), p.limit, engine.Whole)
}

func (p *shards) peek(now int64, key []byte, n, limit int64) spec.Verdict {
	return p.engine.Peek(p.at(now), p.hasher.Bytes(key), int(n), limit)
}

// shrinkShard makes a shard smaller and returns its share of what it was: about what is
// asked for, so that Bloom filter, sketch and table keep their proportions. The
// smallest of them stays two of its units. A Bloom filter that only counts keys decides
// nothing and is left alone: it is so small that shards would hardly shrink.
func shrinkShard(d *spec.Dimensions, share float64) float64 {
	lanes := 64 / d.CellBits
	type field struct {
		of   *int
		unit int
	}
	fields := []field{{&d.Width, lanes}, {&d.HeavyEntries, heavyhitter.BucketEntries}}
	if d.BloomProbes > 1 || d.Width == 0 {
		fields = append(fields, field{&d.BloomBytes, bloom.BlockBytes})
	}
	units := math.Inf(1) // of the smallest
	for _, f := range fields {
		if *f.of > 0 {
			units = math.Min(units, float64(*f.of/f.unit))
		}
	}
	share = math.Max(math.Round(share*units), math.Min(units, 2)) / units
	for _, f := range fields {
		*f.of = int(math.Round(share*float64(*f.of)/float64(f.unit))) * f.unit
	}
	return share
}

package engine

import (
	"io"

	"github.com/sketchlimit/sketchlimit/internal/spec"

	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/savestate"
)

// The words of a snapshot are the shards of the engine, then those of the one that it has replaced, if that matters still.
// A shard is the number of its current generation, the words of its generations, the youngest first, and those of its
// table of heavy hitters. See package savestate for the rest.
const (
	snapshotMagic   = "sklimit"
	snapshotVersion = 5
)

// SnapshotText is hashed to tell one hash, key or seed from another.
const SnapshotText = "sketchlimit: the hash of a snapshot"

var (
	// ErrSnapshot is wrapped by all errors of snapshots that cannot be restored.
	ErrSnapshot = savestate.Err
	// ErrSnapshotMismatch is wrapped by those of snapshots of another limiter, or of another version.
	ErrSnapshotMismatch = savestate.ErrMismatch
)

// header says what the shards are those of.
type header struct {
	Seed   uint64
	Hash   uint64 // of SnapshotText
	Rule   snapshotRule
	Engine snapshotDimensions
	Before snapshotDimensions // 0 where there is none
	Since  int64              // latest generation that Before may have counted in
	Spared overcapacity.Saved
}

// snapshotRule is what the arithmetic of a window or a bucket follows from. Spans are ns. Burst is, of a window, the units
// that it may have counted of a key in one generation, if that is more than Limit.
type snapshotRule struct{ Limit, Generation, Generations, Burst, Span, Spares int64 }

func ruleOf(w *spec.Rule) snapshotRule {
	s := snapshotRule{w.Limit, w.Timeline.Length(), int64(w.Ring.Buffers()), w.Bucket.Burst, w.Bucket.Span, 0}
	if s.Burst == 0 && w.Reach > w.Limit {
		s.Burst = w.Reach
	}
	if w.OverCapacity != nil {
		s.Spares = 1
	}
	return s
}

// snapshotDimensions are Dimensions of 64 bits on every machine.
type snapshotDimensions struct {
	Shards, BloomBytes, BloomProbes, Depth, Width, CellBits, HeavyEntries, HeavyThreshold int64
}

func saved(d *spec.Dimensions) snapshotDimensions {
	return snapshotDimensions{
		int64(d.Shards), int64(d.BloomBytes), int64(d.BloomProbes), int64(d.Depth),
		int64(d.Width), int64(d.CellBits), int64(d.HeavyEntries), int64(d.HeavyThreshold),
	}
}

func (d *snapshotDimensions) dimensions() spec.Dimensions {
	return spec.Dimensions{
		Shards: int(d.Shards), BloomBytes: int(d.BloomBytes), BloomProbes: int(d.BloomProbes), Depth: int(d.Depth),
		Width: int(d.Width), CellBits: int(d.CellBits), HeavyEntries: int(d.HeavyEntries), HeavyThreshold: int(d.HeavyThreshold),
	}
}

// Stages are what decides, and what it has replaced: nil if nothing that matters.
type Stages struct {
	Engine, Before *Engine
	Since          int64 // latest generation that Before may have counted in
	spared         overcapacity.Saved
}

// Stages returns those of an engine that does not grow.
func (e *Engine) Stages() Stages { return Stages{Engine: e} }

// Stages returns those of the moment. What is replaced after that has all units of before, and no others are
// lost to a snapshot of that moment.
func (g *Growth) Stages() Stages {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	return Stages{Engine: e, Before: e.before(), Since: g.since}
}

// Write writes a snapshot, which [Stages.Read] restores, for keys under a hash that gives SnapshotText this sum.
func (s Stages) Write(to io.Writer, hash uint64) (int64, error) {
	h := header{
		Seed: s.Engine.seed, Hash: hash, Rule: ruleOf(&s.Engine.Rule), Engine: saved(&s.Engine.dims), Since: s.Since,
		Spared: s.Engine.OverCapacity.Save(),
	}
	if s.Before != nil {
		h.Before = saved(&s.Before.dims)
	}
	w := savestate.NewWriter(to, snapshotMagic, snapshotVersion, &h)
	writeShards(s.Engine, w)
	if s.Before != nil {
		writeShards(s.Before, w)
	}
	return w.End()
}

func writeShards(e *Engine, to *savestate.Writer) {
	memory := make([]uint64, e.size)
	for i := range e.shards {
		number := snapshotShard(e, memory, i)
		to.Words(uint64(number))
		for age := range int64(e.Ring.Buffers()) {
			to.Words(memory[e.buffer(number-age):][:e.generation]...)
		}
		to.Words(memory[e.Ring.Buffers()*e.generation:]...)
		to.Flush()
	}
}

// snapshotShard copies all words of a shard, and returns the number of its current generation. It
// holds the shard's lock for no longer than that.
func snapshotShard(e *Engine, to []uint64, i int) int64 {
	s := &e.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(to, e.memory[i*e.size:])
	e.algorithm.save(e.request(i, 0), to)
	return s.number
}

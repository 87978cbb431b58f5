package savestate

import (
	"io"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// The words of a snapshot are the shards of the engine, then those of the one that it
// has replaced, if that matters still. A shard is the number of its current generation,
// the words of its generations, the youngest first, and those of its table of heavy
// hitters and of its state. A token bucket has its table of times and its state.
const (
	magic   = "sklimit"
	version = 5
)

// Text is hashed to tell one hash, key or seed from another.
const Text = "sketchlimit: the hash of a snapshot"

// header says what the shards are those of.
type header struct {
	Seed         uint64
	Hash         uint64 // of Text
	Rule         snapshotRule
	Engine       snapshotDimensions
	Before       snapshotDimensions // 0 where there is none
	Since        int64              // latest generation that Before may have counted in
	OverCapacity overcapacity.Saved
}

// snapshotRule is what the arithmetic of a window or a bucket follows from. Spans are
// ns. Burst is, of a window, the units that it may have counted of a key in one
// generation, if that is more than Limit.
type snapshotRule struct{ Limit, Generation, Generations, Burst, Span, DeniesProven int64 }

func ruleOf(w *spec.Rule) snapshotRule {
	s := snapshotRule{w.Limit, w.Timeline.Length(), int64(w.Ring.Buffers()), w.Bucket.Burst, w.Bucket.Span, 0}
	if s.Burst == 0 && w.Reach > w.Limit {
		s.Burst = w.Reach
	}
	if w.OverCapacity != nil {
		s.DeniesProven = 1
	}
	return s
}

// snapshotDimensions are Dimensions of 64 bits on every machine.
type snapshotDimensions struct {
	Shards, BloomBytes, BloomProbes, Depth, Width, CellBits, HeavyEntries, PromoteAt int64
}

func saved(d spec.Dimensions) snapshotDimensions {
	return snapshotDimensions{
		int64(d.Shards), int64(d.BloomBytes), int64(d.BloomProbes), int64(d.Depth),
		int64(d.Width), int64(d.CellBits), int64(d.HeavyEntries), int64(d.PromoteAt),
	}
}

func (d *snapshotDimensions) dimensions() spec.Dimensions {
	return spec.Dimensions{
		Shards: int(d.Shards), BloomBytes: int(d.BloomBytes), BloomProbes: int(d.BloomProbes), Depth: int(d.Depth),
		Width: int(d.Width), CellBits: int(d.CellBits), HeavyEntries: int(d.HeavyEntries), PromoteAt: int(d.PromoteAt),
	}
}

// Stages are what decides, and what it has replaced: nil if nothing that matters.
type Stages struct {
	Engine, Before *engine.Engine
	Since          int64 // latest generation that Before may have counted in
	episodes       overcapacity.Saved
}

// Write writes a snapshot, which [Stages.Read] restores, for keys under a hash that
// gives Text this sum.
func (s Stages) Write(to io.Writer, hash uint64) (int64, error) {
	h := header{
		Seed: s.Engine.Seed(), Hash: hash, Rule: ruleOf(&s.Engine.Rule), Engine: saved(s.Engine.Dimensions()), Since: s.Since,
		OverCapacity: s.Engine.OverCapacity.Save(),
	}
	if s.Before != nil {
		h.Before = saved(s.Before.Dimensions())
	}
	w := NewWriter(to, magic, version, &h)
	writeShards(s.Engine, w)
	if s.Before != nil {
		writeShards(s.Before, w)
	}
	return w.End()
}

func writeShards(e *engine.Engine, to *Writer) {
	shards := engine.ShardsOf(e)
	words := make([]uint64, shards.Words())
	for i := range shards.Count() {
		number := shards.Copy(i, words)
		to.Words(uint64(number))
		for part := range shards.InOrder(words, number) {
			to.Words(part...)
		}
		to.Flush()
	}
}

package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A snapshot is little-endian throughout:
//
//	header  header
//	sum     XXH64 of the header, so that nothing is allocated for a damaged one
//	shards  of the engine, then of the one that it has replaced, if that matters still
//	sum     XXH64 of everything before but the first sum
//
// and a shard is the number of its current generation, the words of its generations, the
// youngest first, and those of its table of heavy keys. A word is 8 bytes.
const (
	snapshotMagic   = "sklimit"
	snapshotVersion = 3
	// snapshotChunk is the bytes written at once.
	snapshotChunk = 256 << 10
)

// SnapshotText is hashed to tell one hash, key or seed from another.
const SnapshotText = "sketchlimit: the hash of a snapshot"

var (
	// ErrSnapshot is wrapped by all errors of snapshots that cannot be restored.
	ErrSnapshot = errors.New("snapshot not restored")
	// ErrSnapshotMismatch is wrapped by those of snapshots of another limiter, or of another version.
	ErrSnapshotMismatch = fmt.Errorf("%w: of another limiter", ErrSnapshot)
)

// header says what the shards are those of.
type header struct {
	Magic   [len(snapshotMagic)]byte
	Version byte
	Seed    uint64
	Hash    uint64 // of SnapshotText
	Rule    snapshotRule
	Engine  snapshotDimensions
	Before  snapshotDimensions // 0 where there is none
	Since   int64              // latest generation that Before may have counted in
	Spared  snapshotSpared
}

// snapshotSpared is what a Spare knows beside the shards, and the units of shards that have ended.
type snapshotSpared struct {
	Since, Last  int64
	Times, Units uint64
}

// snapshotRule is what the arithmetic of a window or a bucket follows from. Spans are ns. Burst is, of a window, the units
// that it may have counted of a key in one generation, if that is more than Limit.
type snapshotRule struct{ Limit, Generation, Generations, Burst, Span, Spares int64 }

func (w *Rule) snapshot() snapshotRule {
	s := snapshotRule{w.limit, w.Timeline.Length(), int64(w.Ring.Buffers()), w.bucket.burst, w.bucket.span, 0}
	if !w.IsBucket() && w.reach > w.limit {
		s.Burst = w.reach
	}
	if w.Spares() {
		s.Spares = 1
	}
	return s
}

// snapshotDimensions are Dimensions of 64 bits on every machine.
type snapshotDimensions struct {
	Shards, BloomBytes, BloomProbes, Depth, Width, CellBits, HeavyEntries, HeavyThreshold int64
}

func (d *Dimensions) snapshot() snapshotDimensions {
	return snapshotDimensions{
		int64(d.Shards), int64(d.BloomBytes), int64(d.BloomProbes), int64(d.Depth),
		int64(d.Width), int64(d.CellBits), int64(d.HeavyEntries), int64(d.HeavyThreshold),
	}
}

func (d *snapshotDimensions) dimensions() Dimensions {
	return Dimensions{
		int(d.Shards), int(d.BloomBytes), int(d.BloomProbes), int(d.Depth),
		int(d.Width), int(d.CellBits), int(d.HeavyEntries), int(d.HeavyThreshold),
	}
}

// Stages are what decides, and what it has replaced: nil if nothing that matters.
type Stages struct {
	Engine, Before *Engine
	Since          int64 // latest generation that Before may have counted in
	spared         snapshotSpared
}

// Stages returns those of an engine that does not grow.
func (e *Engine) Stages() Stages { return Stages{Engine: e} }

// Stages returns those of the moment. What is replaced after that has all units of before, and no others are
// lost to a snapshot of that moment.
func (g *Growth) Stages() Stages {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	return Stages{Engine: e, Before: e.before.Load(), Since: g.since}
}

// Write writes a snapshot, which [Stages.Read] restores, for keys under a hash that gives SnapshotText this sum.
func (s Stages) Write(to io.Writer, hash uint64) (int64, error) {
	h := header{
		Magic: [len(snapshotMagic)]byte([]byte(snapshotMagic)), Version: snapshotVersion,
		Seed: s.Engine.seed, Hash: hash, Rule: s.Engine.Rule.snapshot(), Engine: s.Engine.dims.snapshot(), Since: s.Since,
		Spared: s.Engine.snapshotSpared(),
	}
	if s.Before != nil {
		h.Before = s.Before.dims.snapshot()
	}
	w := newSnapshotWriter(to)
	w.bytes, _ = binary.Append(w.bytes, binary.LittleEndian, &h) // its size is fixed
	w.flush()
	w.sum()
	s.Engine.writeShards(w)
	if s.Before != nil {
		s.Before.writeShards(w)
	}
	w.sum()
	if err := w.buffer.Flush(); err != nil {
		return w.to.n, fmt.Errorf("writing a snapshot: %w", err)
	}
	return w.to.n, nil
}

func (e *Engine) writeShards(to *snapshotWriter) {
	memory := make([]uint64, e.size)
	for i := range e.shards {
		number := e.snapshotShard(memory, i)
		to.words(uint64(number))
		for age := range int64(e.Ring.Buffers()) {
			to.words(memory[e.buffer(number-age):][:e.generation]...)
		}
		to.words(memory[e.Ring.Buffers()*e.generation:]...)
		to.flush()
	}
}

// snapshotShard copies all words of a shard, and returns the number of its current generation. It
// holds the shard's lock for no longer than that.
func (e *Engine) snapshotShard(to []uint64, i int) int64 {
	s := &e.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(to, e.memory[i*e.size:])
	if e.Spares() {
		e.stateIn(to).saved(s.admitted)
	}
	return s.number
}

// snapshotWriter writes and sums up bytes. The buffer keeps the first error.
type snapshotWriter struct {
	to     *yieldingWriter
	buffer *bufio.Writer
	digest *xxhash.Digest
	bytes  []byte // to be flushed
}

func newSnapshotWriter(w io.Writer) *snapshotWriter {
	to := &yieldingWriter{w: w}
	return &snapshotWriter{to: to, buffer: bufio.NewWriterSize(to, snapshotChunk), digest: xxhash.New()}
}

func (s *snapshotWriter) words(words ...uint64) {
	for _, w := range words {
		s.bytes = binary.LittleEndian.AppendUint64(s.bytes, w)
	}
}

func (s *snapshotWriter) flush() {
	s.digest.Write(s.bytes)
	s.buffer.Write(s.bytes)
	s.bytes = s.bytes[:0]
}

// sum writes the sum of what was flushed before, sums left out.
func (s *snapshotWriter) sum() {
	s.buffer.Write(binary.LittleEndian.AppendUint64(nil, s.digest.Sum64()))
}

// yieldingWriter counts bytes, and sleeps between chunks: where decisions keep all
// processors busy, one of them would wait for as long as the scheduler lets a goroutine
// run, 10 ms. runtime.Gosched does not do: the decision may be queued at a processor that is
// busy with another one, and only one that has nothing to do takes it from there.
type yieldingWriter struct {
	w io.Writer
	n int64
}

func (y *yieldingWriter) Write(b []byte) (int, error) {
	if y.n > 0 {
		time.Sleep(100 * time.Microsecond)
	}
	n, err := y.w.Write(b)
	y.n += int64(n)
	return n, err
}

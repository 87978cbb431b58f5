package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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
	snapshotVersion = 1
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
}

// snapshotRule is what the arithmetic of a window or a bucket follows from.
type snapshotRule struct{ Limit, Generation, Generations, Burst, Span int64 }

func (w *Rule) snapshot() snapshotRule {
	return snapshotRule{w.limit, w.length, int64(w.generations), w.bucket.burst, w.bucket.span}
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
}

// Stages returns those of an engine that does not grow.
func (e *Engine) Stages() Stages { return Stages{Engine: e} }

// Stages returns those of the moment. What is replaced after that has all units of before, and no others are
// lost to a snapshot of that moment.
func (g *Growth) Stages() Stages {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	return Stages{e, e.before.Load(), g.since}
}

// Write writes a snapshot, which [Stages.Read] restores, for keys under a hash that gives SnapshotText this sum.
func (s Stages) Write(to io.Writer, hash uint64) (int64, error) {
	h := header{
		Magic: [len(snapshotMagic)]byte([]byte(snapshotMagic)), Version: snapshotVersion,
		Seed: s.Engine.seed, Hash: hash, Rule: s.Engine.Rule.snapshot(), Engine: s.Engine.dims.snapshot(), Since: s.Since,
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
		for age := range int64(e.generations) {
			to.words(memory[e.buffer(number-age):][:e.generation]...)
		}
		to.words(memory[e.generations*e.generation:]...)
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

// Read reads a snapshot of the same rule into new engines, and returns the latest generation of its shards. fits tells
// whether a seed with such a sum of SnapshotText will do. The dimensions are those of s, or if most is not 0 any whose
// engines take no more bytes.
func (s Stages) Read(from io.Reader, most int, fits func(seed, hash uint64) bool) (restored Stages, newest, bytes int64, err error) {
	r := &snapshotReader{r: from, digest: xxhash.New()}
	restored, newest, err = s.read(r, most, fits)
	return restored, newest, r.n, err
}

func (s Stages) read(r *snapshotReader, most int, fits func(seed, hash uint64) bool) (restored Stages, newest int64, err error) {
	h, err := r.header()
	if err != nil {
		return Stages{}, 0, err
	}
	if !fits(h.Seed, h.Hash) {
		return Stages{}, 0, fmt.Errorf("%w: another hash, key or seed", ErrSnapshotMismatch)
	}
	if want := s.Engine.Rule.snapshot(); h.Rule != want {
		return Stages{}, 0, fmt.Errorf("%w: %+v, must be %+v", ErrSnapshotMismatch, h.Rule, want)
	}
	if err := s.hasRoom(h, most); err != nil {
		return Stages{}, 0, fmt.Errorf("%w: %w", ErrSnapshotMismatch, err)
	}
	if restored, err = s.empty(h, most > 0); err != nil {
		return Stages{}, 0, err
	}
	newest = never
	for _, e := range []*Engine{restored.Engine, restored.Before} {
		if e == nil {
			continue
		}
		latest, err := e.readShards(r)
		if err != nil {
			return Stages{}, 0, err
		}
		newest = max(newest, latest)
	}
	restored.Since = min(h.Since, newest)
	return restored, newest, r.end()
}

// empty returns engines as a header says, without counts.
func (s Stages) empty(h header, grows bool) (restored Stages, err error) {
	if restored.Engine, err = New(s.Engine.Rule, h.Engine.dimensions(), h.Seed, s.Engine.flooded); err != nil {
		return Stages{}, err
	}
	if h.Before != (snapshotDimensions{}) {
		if restored.Before, err = New(s.Engine.Rule, h.Before.dimensions(), h.Seed, s.Engine.flooded); err != nil {
			return Stages{}, err
		}
		restored.Before.apart()
	}
	if grows {
		restored.Engine.apart()
	}
	return restored, nil
}

// hasRoom refuses dimensions that are not those of s or, if it grows, could not be.
func (s Stages) hasRoom(h header, most int) error {
	if most == 0 {
		if own := s.Engine.dims.snapshot(); h.Engine != own || h.Before != (snapshotDimensions{}) {
			return fmt.Errorf("%+v and %+v, must be %+v alone", h.Engine, h.Before, own)
		}
		return nil
	}
	total := 0
	for _, one := range []snapshotDimensions{h.Engine, h.Before} {
		if one == (snapshotDimensions{}) && one != h.Engine {
			continue
		}
		d := one.dimensions()
		if d.snapshot() != one {
			return fmt.Errorf("%+v, must be those of a Plan", one)
		}
		if err := d.Check(&s.Engine.Rule); err != nil {
			return err
		}
		bytes, err := d.Bytes(&s.Engine.Rule)
		if err != nil {
			return err
		}
		total += bytes
	}
	if total > most {
		return fmt.Errorf("%d bytes, must be at most %d", total, most)
	}
	return nil
}

// readShards fills the shards and returns their latest generation.
func (e *Engine) readShards(s *snapshotReader) (newest int64, err error) {
	newest = math.MinInt64
	for i := range e.shards {
		number, err := s.number(e.length)
		if err != nil {
			return 0, err
		}
		newest = max(newest, number)
		e.shards[i].number, e.shards[i].peaks = number, unknown
		if e.bucket.burst > 0 {
			e.shards[i].peaks = peaks{} // nothing is lastRounded
		}
		memory := e.memory[i*e.size:][:e.size]
		for age := range int64(e.generations) {
			if err := s.words(memory[e.buffer(number-age):][:e.generation]); err != nil {
				return 0, err
			}
		}
		if err := s.words(memory[e.generations*e.generation:]); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// hasAdmitted tells whether anything was admitted by the stages.
func (s Stages) hasAdmitted() bool {
	for _, e := range []*Engine{s.Engine, s.Before} {
		if e == nil {
			continue
		}
		if admitted, _ := e.Units(); admitted > 0 {
			return true
		}
	}
	return false
}

var errLate = fmt.Errorf("%w: the limiter has admitted units already", ErrSnapshot)

// Become makes the engine what was read, unless it has admitted units.
func (e *Engine) Become(restored Stages) error {
	if e.Stages().hasAdmitted() {
		return errLate
	}
	in := restored.Engine
	e.seed, e.turnSeed, e.bucket.seed = in.seed, in.turnSeed, in.bucket.seed
	for i := range e.shards { // in place, because Stats may be reading
		s := &e.shards[i]
		s.mu.Lock()
		copy(e.memory[i*e.size:][:e.size], in.memory[i*e.size:])
		s.number, s.peaks = in.shards[i].number, in.shards[i].peaks
		s.last.until.Store(math.MinInt64)
		s.mu.Unlock()
	}
	return nil
}

// Become makes what was read the current engine, unless units have been admitted.
func (g *Growth) Become(restored Stages) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	if g.admitted > 0 || (Stages{e, e.before.Load(), g.since}).hasAdmitted() {
		return errLate
	}
	restored.Engine.follow(restored.Before)
	e.next.Store(restored.Engine)
	g.Current.Store(restored.Engine)
	g.since = restored.Since
	return nil
}

// snapshotReader reads and sums up bytes.
type snapshotReader struct {
	r      io.Reader
	n      int64
	digest *xxhash.Digest
	buffer [8 << 10]byte
}

// read returns the next n bytes, of the buffer at the most, until it is called again.
func (s *snapshotReader) read(n int) ([]byte, error) {
	b := s.buffer[:n]
	read, err := io.ReadFull(s.r, b)
	s.n += int64(read)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%w: damaged: ends after %d bytes", ErrSnapshot, s.n)
	}
	if err != nil {
		return nil, err
	}
	s.digest.Write(b)
	return b, nil
}

func (s *snapshotReader) words(words []uint64) error {
	for len(words) > 0 {
		b, err := s.read(min(8*len(words), len(s.buffer)))
		if err != nil {
			return err
		}
		for ; len(b) > 0; b, words = b[8:], words[1:] {
			words[0] = binary.LittleEndian.Uint64(b)
		}
	}
	return nil
}

// number reads the number of a generation of a length, which begins at a time that there is, or of none.
func (s *snapshotReader) number(length int64) (int64, error) {
	b, err := s.read(8)
	if err != nil {
		return 0, err
	}
	number := int64(binary.LittleEndian.Uint64(b))
	if most := 1 << 62 / length; number != never && (number > most || number < -most-1) {
		return 0, fmt.Errorf("%w: damaged: generation %d of %v", ErrSnapshot, number, time.Duration(length))
	}
	return number, nil
}

func (s *snapshotReader) header() (h header, err error) {
	b, err := s.read(binary.Size(&h))
	if err != nil {
		return h, err
	}
	binary.Decode(b, binary.LittleEndian, &h) // has its size
	if string(h.Magic[:]) != snapshotMagic {
		return h, fmt.Errorf("%w: none: begins with % x", ErrSnapshot, h.Magic)
	}
	if h.Version != snapshotVersion {
		return h, fmt.Errorf("%w: version %d, must be %d", ErrSnapshotMismatch, h.Version, snapshotVersion)
	}
	return h, s.sum()
}

// sum reads the sum of what was read before, sums left out.
func (s *snapshotReader) sum() error {
	sum := s.digest.Sum64()
	before := *s.digest
	b, err := s.read(8)
	*s.digest = before
	if err == nil && binary.LittleEndian.Uint64(b) != sum {
		return fmt.Errorf("%w: damaged: wrong sum after %d bytes", ErrSnapshot, s.n-8)
	}
	return err
}

// end reads the last sum, which nothing is to follow.
func (s *snapshotReader) end() error {
	if err := s.sum(); err != nil {
		return err
	}
	switch n, err := io.ReadFull(s.r, s.buffer[:1]); {
	case n > 0:
		return fmt.Errorf("%w: damaged: goes on after %d bytes", ErrSnapshot, s.n)
	case err != io.EOF:
		return err
	}
	return nil
}

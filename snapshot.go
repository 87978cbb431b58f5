package sketchlimit

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
//	header  snapshotHeader
//	sum     XXH64 of the header, so that nothing is allocated for a damaged one
//	shards  of the limiter, then of the one that it has replaced, if that matters still
//	sum     XXH64 of everything before but the first sum
//
// and a shard is the number of its current generation, the words of its generations, the
// youngest first, and those of its table of heavy keys. A word is 8 bytes.
const (
	snapshotMagic   = "sklimit"
	snapshotVersion = 1
	// snapshotText is hashed to tell one hash, key or seed from another.
	snapshotText = "sketchlimit: the hash of a snapshot"
	// snapshotChunk is the bytes written at once.
	snapshotChunk = 256 << 10
)

// snapshotHeader says what the shards are those of.
type snapshotHeader struct {
	Magic   [len(snapshotMagic)]byte
	Version byte
	Seed    uint64
	Hash    uint64 // of snapshotText
	Rule    snapshotRule
	InUse   dimensions
	Before  dimensions // 0 where there is none
	Since   int64      // latest generation that Before may have counted in
}

// snapshotRule is what the arithmetic of a window or a bucket follows from.
type snapshotRule struct{ Limit, Generation, Generations, Burst, Span int64 }

func (w *window) rule() snapshotRule {
	return snapshotRule{w.limit, w.length, int64(w.generations), w.bucket.burst, w.bucket.span}
}

// dimensions are those of a [Plan].
type dimensions struct {
	Shards, BloomBytes, BloomProbes, Depth, Width, CellBits, HeavyEntries, HeavyThreshold int64
}

func (p *Plan) dimensions() dimensions {
	return dimensions{
		int64(p.Shards), int64(p.BloomBytes), int64(p.BloomProbes), int64(p.Depth),
		int64(p.Width), int64(p.CellBits), int64(p.HeavyEntries), int64(p.HeavyThreshold),
	}
}

func (d *dimensions) plan() Plan {
	return Plan{
		Shards: int(d.Shards), BloomBytes: int(d.BloomBytes), BloomProbes: int(d.BloomProbes), Depth: int(d.Depth),
		Width: int(d.Width), CellBits: int(d.CellBits), HeavyEntries: int(d.HeavyEntries), HeavyThreshold: int(d.HeavyThreshold),
	}
}

// Errors that those of [Limiter.ReadFrom] and [Limiter.Load] wrap. The limiter is then as it
// was before.
var (
	ErrSnapshot        = errors.New("no snapshot, or a damaged one")
	ErrSnapshotVersion = errors.New("snapshot of another version")
	ErrSnapshotHash    = errors.New("snapshot under another hash, key or seed")
	ErrSnapshotConfig  = errors.New("snapshot of another limiter")
	ErrSnapshotTime    = errors.New("snapshot from the future")
	ErrSnapshotLate    = errors.New("too late for a snapshot")
)

// WriteTo writes a snapshot of the limiter, which [Limiter.ReadFrom] restores: every unit
// that was admitted before WriteTo began, and some of those since. It is as long as
// MemoryBytes or a little less, and the same on machines of either byte order.
//
// Decisions go on: WriteTo locks one shard at a time, for as long as it takes to copy some
// KiB (or what Config.Plan makes of a shard), and writes without a lock. It pauses every
// 256 KiB, which takes longer where decisions keep all processors busy.
//
// A snapshot holds no keys and no key of a Hash, but the seed: whoever reads one of a
// limiter whose Hash is not keyed can choose keys that collide. Keep it to yourself.
func (l *Limiter) WriteTo(w io.Writer) (int64, error) {
	in, before, since := l.stages()
	h := snapshotHeader{
		Magic: [len(snapshotMagic)]byte([]byte(snapshotMagic)), Version: snapshotVersion,
		Seed: l.seed, Hash: l.hashString(snapshotText), Rule: l.rule(), InUse: in.plan.dimensions(), Since: since,
	}
	if before != nil {
		h.Before = before.plan.dimensions()
	}
	s := newSnapshotWriter(w)
	s.bytes, _ = binary.Append(s.bytes, binary.LittleEndian, &h) // its size is fixed
	s.flush()
	s.sum()
	in.writeShards(s)
	if before != nil {
		before.writeShards(s)
	}
	s.sum()
	if err := s.buffer.Flush(); err != nil {
		return s.to.n, fmt.Errorf("sketchlimit: writing a snapshot: %w", err)
	}
	return s.to.n, nil
}

// stages returns what decides at present, and what it has replaced, nil if nothing that
// matters. What is replaced after that has all units of before, and no others are lost to
// a snapshot of that moment.
func (l *Limiter) stages() (in, before *Limiter, since int64) {
	g := l.growth
	if g == nil {
		return l, nil, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	in = l.inner.Load()
	return in, in.before.Load(), g.since
}

func (l *Limiter) writeShards(to *snapshotWriter) {
	memory := make([]uint64, l.size)
	for i := range l.shards {
		number := l.snapshotShard(memory, i)
		to.words(uint64(number))
		for age := range int64(l.generations) {
			to.words(memory[l.buffer(number-age):][:l.generation]...)
		}
		to.words(memory[l.generations*l.generation:]...)
		to.flush()
	}
}

// snapshotShard copies all words of a shard, and returns the number of its current generation. It
// holds the shard's lock for no longer than that.
func (l *Limiter) snapshotShard(to []uint64, i int) int64 {
	s := &l.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(to, l.memory[i*l.size:])
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

// ReadFrom restores a snapshot, which is all there is to read from r, into a limiter of the
// same Config (but for Clock; one with Overload Grow need only have room) that has not
// admitted anything yet. It must be called before the first decision and not beside
// one; Stats may be read meanwhile.
//
// Time that has passed since the snapshot has passed for it: of generations that have left
// the window nothing is restored, and buckets fill. Units admitted after WriteTo began are
// forgotten: by a key's share of those more than its limit can be admitted, and nothing by
// a snapshot after the last decision. A seed that was drawn is replaced by the snapshot's.
//
// An error that wraps one of the ErrSnapshots tells why a snapshot was refused, and that
// the limiter is as it was. ReadFrom takes as much memory as the limiter for a while.
func (l *Limiter) ReadFrom(r io.Reader) (int64, error) {
	s := &snapshotReader{r: r, digest: xxhash.New()}
	if err := l.restore(s); err != nil {
		return s.n, fmt.Errorf("sketchlimit: restoring a snapshot: %w", err)
	}
	return s.n, nil
}

func (l *Limiter) restore(s *snapshotReader) error {
	h, err := s.header()
	if err != nil {
		return err
	}
	in, before, err := l.restored(h)
	if err != nil {
		return err
	}
	newest := int64(math.MinInt64)
	for _, stage := range []*Limiter{in, before} {
		if stage == nil {
			continue
		}
		latest, err := stage.readShards(s)
		if err != nil {
			return err
		}
		newest = max(newest, latest)
	}
	if err := s.end(); err != nil {
		return err
	}
	// A clock that steps back waits for as long as what is kept; but not for years.
	if now := l.windows.Now().Generation; newest > now+int64(l.generations) {
		return fmt.Errorf("%w: of %v", ErrSnapshotTime, time.Unix(0, newest*l.length).UTC())
	}
	return l.become(in, before, min(h.Since, newest), newest)
}

// restored returns limiters as a header says, without counts.
func (l *Limiter) restored(h snapshotHeader) (in, before *Limiter, err error) {
	hash := hasher{h.Seed, l.hash}
	if h.Hash != hash.hashString(snapshotText) || h.Seed != l.seed && !l.drawn {
		return nil, nil, ErrSnapshotHash
	}
	if h.Rule != l.rule() {
		return nil, nil, fmt.Errorf("%w: %+v, must be %+v", ErrSnapshotConfig, h.Rule, l.rule())
	}
	if err := l.hasRoom(h); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSnapshotConfig, err)
	}
	if in, err = newLimiter(l.window, h.InUse.plan(), hash, l.windows); err != nil {
		return nil, nil, err
	}
	if h.Before != (dimensions{}) {
		if before, err = newLimiter(l.window, h.Before.plan(), hash, l.windows); err != nil {
			return nil, nil, err
		}
		before.apart()
	}
	if l.growth != nil {
		in.apart()
	}
	return in, before, nil
}

// hasRoom refuses dimensions that are not the limiter's own or, if it grows, could not be.
func (l *Limiter) hasRoom(h snapshotHeader) error {
	if l.growth == nil {
		if own := l.plan.dimensions(); h.InUse != own || h.Before != (dimensions{}) {
			return fmt.Errorf("%+v and %+v, must be %+v alone", h.InUse, h.Before, own)
		}
		return nil
	}
	total := growthBytes
	for _, d := range []dimensions{h.InUse, h.Before} {
		if d == (dimensions{}) && d != h.InUse {
			continue
		}
		p := d.plan()
		if p.dimensions() != d {
			return fmt.Errorf("%+v, must be those of a Plan", d)
		}
		if err := p.check(int(l.limit), l.generations); err != nil {
			return err
		}
		bytes, err := l.bytes(p)
		if err != nil {
			return err
		}
		total += bytes
	}
	if most := l.growth.config.MaxMemoryBytes; total > most {
		return fmt.Errorf("%d bytes, must be at most MaxMemoryBytes %d", total, most)
	}
	return nil
}

// readShards fills the shards and returns their latest generation.
func (l *Limiter) readShards(s *snapshotReader) (newest int64, err error) {
	newest = math.MinInt64
	for i := range l.shards {
		number, err := s.number(l.length)
		if err != nil {
			return 0, err
		}
		newest = max(newest, number)
		l.shards[i].number, l.shards[i].peaks = number, unknown
		if l.bucket.burst > 0 {
			l.shards[i].peaks = peaks{} // nothing is lastRounded
		}
		memory := l.memory[i*l.size:][:l.size]
		for age := range int64(l.generations) {
			if err := s.words(memory[l.buffer(number-age):][:l.generation]); err != nil {
				return 0, err
			}
		}
		if err := s.words(memory[l.generations*l.generation:]); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// become makes the limiter what was restored, unless it has admitted units.
func (l *Limiter) become(in, before *Limiter, since, newest int64) error {
	if g := l.growth; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.admitted > 0 {
			return ErrSnapshotLate
		}
	}
	for _, stage := range []*Limiter{l.inUse(), l.inUse().before.Load()} {
		if stage == nil {
			continue
		}
		if admitted, _ := stage.units(); admitted > 0 {
			return ErrSnapshotLate
		}
	}
	l.windows.At(time.Unix(0, newest*l.length))
	l.seed, l.turnSeed, l.bucket.seed = in.seed, in.turnSeed, in.bucket.seed
	if l.growth != nil {
		in.outer = l
		in.follow(before)
		l.inner.Store(in)
		l.growth.since = since
		return nil
	}
	for i := range l.shards { // in place, because Stats may be reading
		s := &l.shards[i]
		s.mu.Lock()
		copy(l.memory[i*l.size:][:l.size], in.memory[i*l.size:])
		s.number, s.peaks = in.shards[i].number, in.shards[i].peaks
		s.last.until.Store(math.MinInt64)
		s.mu.Unlock()
	}
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
		return nil, fmt.Errorf("%w: ends after %d bytes", ErrSnapshot, s.n)
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

// number reads the number of a generation of a length, which begins at a time that there is.
func (s *snapshotReader) number(length int64) (int64, error) {
	b, err := s.read(8)
	if err != nil {
		return 0, err
	}
	number := int64(binary.LittleEndian.Uint64(b))
	if most := 1 << 62 / length; number > most || number < -most-1 {
		return 0, fmt.Errorf("%w: generation %d of %v", ErrSnapshot, number, time.Duration(length))
	}
	return number, nil
}

func (s *snapshotReader) header() (h snapshotHeader, err error) {
	b, err := s.read(binary.Size(&h))
	if err != nil {
		return h, err
	}
	binary.Decode(b, binary.LittleEndian, &h) // has its size
	if string(h.Magic[:]) != snapshotMagic {
		return h, fmt.Errorf("%w: begins with % x", ErrSnapshot, h.Magic)
	}
	if h.Version != snapshotVersion {
		return h, fmt.Errorf("%w: %d, must be %d", ErrSnapshotVersion, h.Version, snapshotVersion)
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
		return fmt.Errorf("%w: wrong sum after %d bytes", ErrSnapshot, s.n-8)
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
		return fmt.Errorf("%w: goes on after %d bytes", ErrSnapshot, s.n)
	case err != io.EOF:
		return err
	}
	return nil
}

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit/internal/invariants"
)

// Read reads a snapshot of the same rule into new engines, and returns the latest generation of its shards. fits tells
// why a seed with such a sum of SnapshotText will not do, or nil. The dimensions are those of s, or if most is not 0 any whose
// engines take no more bytes.
func (s Stages) Read(from io.Reader, most int, fits func(seed, hash uint64) error) (restored Stages, newest, bytes int64, err error) {
	r := &snapshotReader{r: from, digest: xxhash.New()}
	restored, newest, err = s.read(r, most, fits)
	return restored, newest, r.n, err
}

func (s Stages) read(r *snapshotReader, most int, fits func(seed, hash uint64) error) (restored Stages, newest int64, err error) {
	h, err := r.header()
	if err != nil {
		return Stages{}, 0, err
	}
	if err := fits(h.Seed, h.Hash); err != nil {
		return Stages{}, 0, fmt.Errorf("%w: %w", ErrSnapshotMismatch, err)
	}
	if differ := differences(h.Rule, s.Engine.Rule.snapshot()); differ != "" {
		return Stages{}, 0, fmt.Errorf("%w: %s", ErrSnapshotMismatch, differ)
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
	restored.spared = restored.sparing(h.Spared)
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

// differences names the fields in which two structs of integers differ.
func differences(have, want any) string {
	h, w := reflect.ValueOf(have), reflect.ValueOf(want)
	var differ []string
	for i := range h.NumField() {
		if h.Field(i).Int() != w.Field(i).Int() {
			differ = append(differ, fmt.Sprintf("%s %d, must be %d", h.Type().Field(i).Name, h.Field(i).Int(), w.Field(i).Int()))
		}
	}
	return strings.Join(differ, "; ")
}

// hasRoom refuses dimensions that are not those of s or, if it grows, could not be.
func (s Stages) hasRoom(h header, most int) error {
	if most == 0 {
		if h.Before != (snapshotDimensions{}) {
			return errors.New("it was growing, and this one does not")
		}
		if differ := differences(h.Engine, s.Engine.dims.snapshot()); differ != "" {
			return fmt.Errorf("it has other dimensions (Keys, FalseDenialRate, MemoryBytes or Plan differ): %s", differ)
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
		number, err := s.number(e)
		if err != nil {
			return 0, err
		}
		e.shards[i].number, e.shards[i].peaks = number, unknown
		if e.bucket.burst > 0 {
			e.shards[i].peaks = peaks{} // nothing is lastRounded
		}
		memory := e.memory[i*e.size:][:e.size]
		for age := range int64(e.Ring.Buffers()) {
			if err := s.words(memory[e.buffer(number-age):][:e.generation]); err != nil {
				return 0, err
			}
		}
		if err := s.words(memory[e.Ring.Buffers()*e.generation:]); err != nil {
			return 0, err
		}
		latest, err := e.generationIn(i)
		if err != nil {
			return 0, err
		}
		newest = max(newest, latest)
	}
	return newest, nil
}

// generationIn returns the number of the generation of a shard that was read, which a wide one has in its memory.
func (e *Engine) generationIn(i int) (number int64, err error) {
	r := e.request(i, 0)
	if !e.Spares() {
		return r.s.number, nil
	}
	if number := r.state().number; r.wide() && !e.Timeline.InRange(number) {
		return 0, fmt.Errorf("%w: damaged: generation %d of %v", ErrSnapshot, number, time.Duration(e.Timeline.Length()))
	}
	return r.number(), nil
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
	e.spare.become(restored.spared)
	in := restored.Engine
	e.seed, e.turnSeed, e.bucket.seed = in.seed, in.turnSeed, in.bucket.seed
	for i := range e.shards { // in place, because Stats may be reading
		s := &e.shards[i]
		s.mu.Lock()
		copy(e.memory[i*e.size:][:e.size], in.memory[i*e.size:])
		s.number, s.peaks = in.shards[i].number, in.shards[i].peaks
		s.last.Clear()
		s.mu.Unlock()
	}
	return nil
}

// Become makes what was read the current engine, unless units have been admitted.
func (g *Growth) Become(restored Stages) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	if g.admitted > 0 || (Stages{Engine: e, Before: e.before.Load(), Since: g.since}).hasAdmitted() {
		return errLate
	}
	e.spare.become(restored.spared)
	restored.Engine.follow(restored.Before)
	if invariants.On {
		restored.Engine.rankAfter(e, restored.Before)
	}
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

// number reads the number of a generation that begins at a time that there is, or of none, or that of a wide shard.
func (s *snapshotReader) number(e *Engine) (int64, error) {
	b, err := s.read(8)
	if err != nil {
		return 0, err
	}
	number := int64(binary.LittleEndian.Uint64(b))
	if !e.Timeline.InRange(number) && number != never && (number != apart || !e.Spares()) {
		return 0, fmt.Errorf("%w: damaged: generation %d of %v", ErrSnapshot, number, time.Duration(e.Timeline.Length()))
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

package engine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/savestate"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Read reads a snapshot of the same rule into new engines, and returns the latest generation of its shards. fits tells
// why a seed with such a sum of SnapshotText will not do, or nil. The dimensions are those of s, or if most is not 0 any whose
// engines take no more bytes.
func (s Stages) Read(from io.Reader, most int, fits func(seed, hash uint64) error) (restored Stages, newest, bytes int64, err error) {
	r := savestate.NewReader(from)
	restored, newest, err = s.read(r, most, fits)
	return restored, newest, r.Bytes(), err
}

func (s Stages) read(r *savestate.Reader, most int, fits func(seed, hash uint64) error) (restored Stages, newest int64, err error) {
	var h header
	if err := r.Header(snapshotMagic, snapshotVersion, &h); err != nil {
		return Stages{}, 0, err
	}
	if err := fits(h.Seed, h.Hash); err != nil {
		return Stages{}, 0, fmt.Errorf("%w: %w", ErrSnapshotMismatch, err)
	}
	if differ := differences(h.Rule, ruleOf(&s.Engine.Rule)); differ != "" {
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
		latest, err := readShards(e, r)
		if err != nil {
			return Stages{}, 0, err
		}
		newest = max(newest, latest)
	}
	restored.Since = min(h.Since, newest)
	restored.spared = restored.spares(h.Spared)
	return restored, newest, r.End()
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
		setApart(restored.Before)
	}
	if grows {
		setApart(restored.Engine)
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
		if differ := differences(h.Engine, saved(&s.Engine.dims)); differ != "" {
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
		if saved(&d) != one {
			return fmt.Errorf("%+v, must be those of a Plan", one)
		}
		if err := d.Check(&s.Engine.Rule); err != nil {
			return err
		}
		bytes, err := BytesOf(&s.Engine.Rule, &d)
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
func readShards(e *Engine, s *savestate.Reader) (newest int64, err error) {
	newest = math.MinInt64
	for i := range e.shards {
		number, err := readNumber(e, s)
		if err != nil {
			return 0, err
		}
		e.shards[i].number = number
		memory := e.memory[i*e.size:][:e.size]
		for age := range int64(e.Ring.Buffers()) {
			if err := s.Words(memory[e.buffer(number-age):][:e.generation]); err != nil {
				return 0, err
			}
		}
		if err := s.Words(memory[e.Ring.Buffers()*e.generation:]); err != nil {
			return 0, err
		}
		e.algorithm.restored(e.request(i, 0))
		latest, err := generationIn(e, i)
		if err != nil {
			return 0, err
		}
		newest = max(newest, latest)
	}
	return newest, nil
}

// generationIn returns the number of the generation of a shard that was read.
func generationIn(e *Engine, i int) (number int64, err error) {
	r := e.request(i, 0)
	if !e.Spares() {
		return r.s.number, nil
	}
	state := r.state()
	if state.mode < exactly || state.mode > settling || (state.mode == settling) != (state.turns > 0) || state.turns < 0 {
		return 0, fmt.Errorf("%w: damaged: mode %d, %d generations", ErrSnapshot, state.mode, state.turns)
	}
	return r.s.number, nil
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
	e.OverCapacity.Restore(restored.spared)
	in := restored.Engine
	e.seed, e.turnSeed, e.timeSeed = in.seed, in.turnSeed, in.timeSeed
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
	if g.admitted > 0 || (Stages{Engine: e, Before: e.before(), Since: g.since}).hasAdmitted() {
		return errLate
	}
	e.OverCapacity.Restore(restored.spared)
	restored.Engine.follow(restored.Before)
	restored.Engine.audit = e.audit
	if invariants.On {
		rankAfter(restored.Engine, e, restored.Before)
	}
	e.next.Store(restored.Engine)
	g.Current.Store(restored.Engine)
	g.since = restored.Since
	return nil
}

// readNumber reads the number of a generation that begins at a time that there is, or of none.
func readNumber(e *Engine, s *savestate.Reader) (int64, error) {
	word, err := s.Word()
	if err != nil {
		return 0, err
	}
	number := int64(word)
	if !e.Timeline.InRange(number) && number != never {
		return 0, fmt.Errorf("%w: damaged: generation %d of %v", ErrSnapshot, number, time.Duration(e.Timeline.Length()))
	}
	return number, nil
}

// spares returns what a snapshot holds, which was written before its shards, with those that spare.
func (s Stages) spares(held overcapacity.Saved) overcapacity.Saved {
	for _, e := range []*Engine{s.Engine, s.Before} {
		if e == nil || !e.Spares() {
			continue
		}
		for i := range e.shards {
			r := e.request(i, 0)
			state, last := r.state(), r.s.number
			switch state.mode {
			case exactly:
				continue
			case settling:
				last -= int64(r.e.Ring.Buffers()) - int64(state.turns)
			}
			if held.Times == 0 {
				held = overcapacity.Saved{Since: e.Timeline.UnixNano(rotating.Position{Generation: last}), Last: last, Times: 1, Units: held.Units}
			}
			held.Last = max(held.Last, last)
		}
	}
	return held
}

package savestate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Read reads a snapshot of the same rule into new engines, and returns the latest
// generation of its shards. fits tells why a seed with such a sum of Text will not do,
// or nil. The dimensions are those of s, or if most is not 0 any whose engines take no
// more bytes.
func (s Stages) Read(from io.Reader, most int, fits func(seed, hash uint64) error) (restored Stages, newest, bytes int64, err error) {
	r := NewReader(from)
	restored, newest, err = s.read(r, most, fits)
	return restored, newest, r.Bytes(), err
}

func (s Stages) read(r *Reader, most int, fits func(seed, hash uint64) error) (restored Stages, newest int64, err error) {
	var h header
	if err := r.Header(magic, version, &h); err != nil {
		return Stages{}, 0, err
	}
	if err := fits(h.Seed, h.Hash); err != nil {
		return Stages{}, 0, fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if differ := differences(h.Rule, ruleOf(&s.Engine.Rule)); differ != "" {
		return Stages{}, 0, fmt.Errorf("%w: %s", ErrMismatch, differ)
	}
	if err := s.hasRoom(h, most); err != nil {
		return Stages{}, 0, fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if restored, err = s.empty(h, most > 0); err != nil {
		return Stages{}, 0, err
	}
	newest = math.MinInt64
	for _, e := range []*engine.Engine{restored.Engine, restored.Before} {
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
	restored.episodes = restored.withShards(h.OverCapacity)
	return restored, newest, r.End()
}

// empty returns engines as a header says, without counts.
func (s Stages) empty(h header, grows bool) (restored Stages, err error) {
	if restored.Engine, err = s.Engine.Empty(h.Engine.dimensions(), h.Seed); err != nil {
		return Stages{}, err
	}
	if h.Before != (snapshotDimensions{}) {
		if restored.Before, err = s.Engine.Empty(h.Before.dimensions(), h.Seed); err != nil {
			return Stages{}, err
		}
		restored.Before.SetApart()
	}
	if grows {
		restored.Engine.SetApart()
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
		if differ := differences(h.Engine, saved(s.Engine.Dimensions())); differ != "" {
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
		if saved(d) != one {
			return fmt.Errorf("%+v, must be those of a Plan", one)
		}
		if err := d.Check(&s.Engine.Rule); err != nil {
			return err
		}
		bytes, err := engine.BytesOf(&s.Engine.Rule, &d)
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
func readShards(e *engine.Engine, r *Reader) (newest int64, err error) {
	newest = math.MinInt64
	shards := engine.ShardsOf(e)
	for i := range shards.Count() {
		word, err := r.Word()
		if err != nil {
			return 0, err
		}
		number := int64(word)
		if !shards.CanBegin(number) {
			return 0, fmt.Errorf("%w: damaged: generation %d of %v", Err, number, time.Duration(e.Timeline.Length()))
		}
		if err := shards.Fill(i, number, r.Words); err != nil {
			return 0, err
		}
		if err := shards.Check(i); err != nil {
			return 0, fmt.Errorf("%w: damaged: %w", Err, err)
		}
		newest = max(newest, number)
	}
	return newest, nil
}

// HasAdmitted reports whether anything was admitted by the stages.
func (s Stages) HasAdmitted() bool {
	for _, e := range []*engine.Engine{s.Engine, s.Before} {
		if e == nil {
			continue
		}
		if admitted, _ := e.Units(); admitted > 0 {
			return true
		}
	}
	return false
}

// ErrLate says that what a snapshot was to become has admitted units.
var ErrLate = fmt.Errorf("%w: the limiter has admitted units already", Err)

// Replace makes what was read decide in the place of stages of a limiter that grows,
// unless these have admitted units.
func (s Stages) Replace(of Stages) error {
	if of.HasAdmitted() {
		return ErrLate
	}
	of.Engine.OverCapacity.Restore(s.episodes)
	of.Engine.ReplaceBy(s.Engine, s.Before)
	return nil
}

// Become makes an engine what was read, unless it has admitted units.
func (s Stages) Become(e *engine.Engine) error {
	if (Stages{Engine: e}).HasAdmitted() {
		return ErrLate
	}
	e.OverCapacity.Restore(s.episodes)
	engine.ShardsOf(e).TakeOver(s.Engine)
	return nil
}

// withShards returns what a snapshot holds of episodes, which was written before its
// shards, as these have it.
func (s Stages) withShards(held overcapacity.Saved) overcapacity.Saved {
	for _, e := range []*engine.Engine{s.Engine, s.Before} {
		if e == nil {
			continue
		}
		last, ok := engine.ShardsOf(e).LastOverCapacity()
		if !ok {
			continue
		}
		if held.Times == 0 {
			held = overcapacity.Saved{Since: e.Timeline.UnixNano(rotating.Position{Generation: last}), Last: last, Times: 1, Units: held.Units}
		}
		held.Last = max(held.Last, last)
	}
	return held
}

// Package published arranges Bloom filters and count-min sketches as publications do, for
// comparison with the library's limiter in the same memory.
package published

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/draw"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// Arrangement is a fixed-window limiter put together from the published parts. Make one
// with [New]. It is not safe for concurrent use.
type Arrangement struct {
	limit   int
	seed    uint64
	windows windows.Clock
	filter  *bloom.Filter // nil: none
	sketch  *cms.Sketch   // nil: none
	admit   Rule
	layout  string
}

// Rule reports whether n more units, 1 … Limit, of the key with hash h are admitted, and
// counts them if so. count is the key's estimate after that.
type Rule func(a *Arrangement, h uint64, n int) (count int, ok bool)

const (
	rows    = 4
	probes  = 4
	headers = 256 // bytes that filter and sketch take beside bits and cells, at most
)

// Config is what arrangements of equal size have in common.
type Config struct {
	Limit       int           // units per key and window, 1 … 1<<31-1
	Window      time.Duration // above 0
	MemoryBytes int           // for everything, 4096 … 1<<31-1
	Seed        uint64
}

// New returns an arrangement that has counted nothing. One part in filterShare of the
// memory is for the filter (0: none, 1: all), the rest for a sketch of cells of 4, 8, 16
// or 32 bits.
func New(c Config, filterShare, bits int, rule Rule) (*Arrangement, error) {
	r := &Arrangement{limit: c.Limit, seed: c.Seed, windows: windows.NewClock(c.Window), admit: rule}
	left := c.MemoryBytes - headers
	var err error
	if filterShare > 0 {
		bytes := left / filterShare / bloom.BlockBytes * bloom.BlockBytes
		if r.filter, err = bloom.NewBytes(bytes, probes); err != nil {
			return nil, err
		}
		r.layout = fmt.Sprintf("Bloom filter %d B", bytes)
		left -= bytes
	}
	if filterShare != 1 {
		width := left / rows / 8 * 8 * 8 / bits // rows are whole words
		if r.sketch, err = cms.New(rows, width, bits); err != nil {
			return nil, err
		}
		if r.layout != "" {
			r.layout += ", "
		}
		r.layout += fmt.Sprintf("%d × %d cells of %d bits", rows, width, bits)
	}
	return r, nil
}

// TakeAt is isRequestAllowed of the published code, for n units instead of one. A later
// window begins with nothing counted. A cost below 1 or above the limit is denied.
func (a *Arrangement) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	if a.windows.Turn(now) {
		a.clear()
	}
	h := draw.Mix(xxhash.Sum64String(key) ^ a.seed)
	count, ok := a.limit, false
	if n >= 1 && n <= a.limit {
		count, ok = a.admit(a, h, n)
	}
	return sketchlimit.Decision{Allowed: ok, Limit: a.limit, Remaining: max(a.limit-count, 0)}
}

func (a *Arrangement) clear() {
	if a.filter != nil {
		a.filter.Clear()
	}
	if a.sketch != nil {
		a.sketch.Clear()
	}
}

// Layout describes filter and sketch in words.
func (a *Arrangement) Layout() string { return a.layout }

// MemoryBytes returns the bytes of filter and sketch.
func (a *Arrangement) MemoryBytes() (bytes int) {
	if a.filter != nil {
		bytes += a.filter.MemoryBytes()
	}
	if a.sketch != nil {
		bytes += a.sketch.MemoryBytes()
	}
	return bytes
}

// Published is the rule of the published code: bloomFilter.mightContain(userId) &&
// estimateCount(userId) >= maxRequests refuses, and what passes is added to both. For one
// unit ">= limit" is "+ n > limit".
func Published(a *Arrangement, h uint64, n int) (int, bool) {
	count := 0
	if a.filter.Test(h) {
		if count = int(a.sketch.Estimate(h)); count+n > a.limit {
			return count, false
		}
	}
	a.filter.Add(h)
	a.sketch.Add(h, uint32(n))
	return count + n, true
}

// PlainSketch asks a count-min sketch alone, and adds to all cells of the key.
func PlainSketch(a *Arrangement, h uint64, n int) (int, bool) {
	count := int(a.sketch.Estimate(h))
	if count+n > a.limit {
		return count, false
	}
	a.sketch.Add(h, uint32(n))
	return count + n, true
}

// Conservative raises the cells of the key to minimum + n only, and never past the limit.
func Conservative(a *Arrangement, h uint64, n int) (int, bool) {
	count, ok := a.sketch.AddBounded(h, uint32(n), uint32(a.limit))
	return int(count), ok
}

// FirstUnitInFilter counts the first unit of a key by its presence in the filter, and
// those after it in the sketch.
func FirstUnitInFilter(a *Arrangement, h uint64, n int) (int, bool) {
	seen := a.filter.Test(h)
	rest := n
	if !seen {
		rest--
	}
	first := n - rest
	if rest > 0 {
		count, ok := 0, false
		if a.sketch != nil {
			var c uint32
			c, ok = a.sketch.AddBounded(h, uint32(rest), uint32(a.limit-1))
			count = int(c)
		}
		if !ok {
			return count + 1 - first, false
		}
		a.filter.Add(h)
		return count + 1, true
	}
	a.filter.Add(h)
	return 1, true
}

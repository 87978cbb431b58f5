package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// The cache lines that a decision writes are taken from other cores, and these fetch them again: at most four.
func TestLinesWritten(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, requests := range []int{1, 5, 14} {
		require.LessOrEqual(t, linesWritten(t, 15, requests), 4.0, "%d requests of a key in a window", requests)
	}
}

// BenchmarkLinesWritten counts them in 4 MiB among a million keys.
func BenchmarkLinesWritten(b *testing.B) {
	shards := 255
	if testing.Short() {
		shards = 15
	}
	for _, requests := range []int{1, 5, 14} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) {
			for range b.N {
				b.ReportMetric(linesWritten(b, shards, requests), "lines/op")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// linesWritten returns the lines that a decision writes on average in the third of three windows, in which each key comes
// so often: 3922 keys for each of the shards, which are those of a sliding window with limit 100 in 4 MiB.
func linesWritten(t testing.TB, shards, requests int) float64 {
	l := faceOf(t, sliding(100, time.Second), spec.Dimensions{
		Shards: shards, BloomBytes: 192, BloomProbes: 1, Depth: 3, Width: 3968, CellBits: 4, HeavyEntries: 496, PromoteAt: 16,
	})
	keys := 1_000_000 * shards / 255
	lines, counted, all := 0, 0, keys*requests
	for window := range int64(3) {
		for i := range all {
			p := rotating.Position{Generation: window, Elapsed: time.Duration(i) * time.Second / time.Duration(all)}
			h := keyhash.Mix(uint64(i%keys), 1)
			take := func() { l.Take(l.Timeline.Pack(p), h, 1, l.Limit, Brief) }
			if window < 2 || i%61 > 0 {
				take()
				continue
			}
			lines += l.written(h, take)
			counted++
		}
	}
	return float64(lines) / float64(counted)
}

// written returns how many lines a decision on a key writes: those that change. It adds the line of the key's first cell
// if only others rise, since the cells are written together with that one. No other store leaves all as it was. The
// shard's line always changes: it has the lock, and counts units.
func (f *face) written(h uint64, decide func()) (lines int) {
	r := f.at(h)
	parts := [][]uint64{words(r.s), words(f.flooded), r.e.memory[r.first:][:r.e.size]}
	var before [][]uint64
	for _, part := range parts {
		before = append(before, slices.Clone(part))
	}
	decide()
	changed := func(part, line int) bool {
		return [8]uint64(parts[part][8*line:]) != [8]uint64(before[part][8*line:])
	}
	for i, part := range parts {
		for line := range len(part) / 8 {
			if changed(i, line) {
				lines++
			}
		}
	}
	first, h := window{r}.at(r.s.number)
	a, b, c, _ := r.e.cells.Four(first+r.e.cellsFirst, h)
	line := func(word int) int { return (word - r.first) / 8 }
	if !changed(2, line(a)) && (changed(2, line(b)) || changed(2, line(c))) {
		lines++
	}
	return lines
}

// words is the memory of a value.
func words[T any](v *T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(v)), unsafe.Sizeof(*v)/8)
}

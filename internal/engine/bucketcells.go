package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// The cells of a bucket hold the times of [gcra.Bucket]: a sketch of times. A cell holds the greatest that any key of the
// cell has, and of a key's cells the least is read. So a reading is never too early, and an idle key's bucket fills by time
// passing, without anything being cleared.

// forward brings cells forward by so many ticks: what has passed by then reads 0.
func forward(cells []uint64, ticks uint32) {
	if ticks == math.MaxUint32 {
		clear(cells)
		return
	}
	t := uint64(ticks)
	for i, w := range cells {
		hi, lo := w>>32, w&math.MaxUint32
		cells[i] = (hi-min(hi, t))<<32 | (lo - min(lo, t))
	}
}

// Beyond returns the least that a bucket's cell holds whose time is more than ns later than a position.
func (w *Rule) Beyond(p rotating.Position, ns int64) uint32 { return w.bucket.Beyond(p.Elapsed, ns) }

// bucketDenialRate returns the chance that a new key is denied n units now at a limit which the exact algorithm
// admits: that it meets, in every row, a cell whose time lies too far ahead.
func bucketDenialRate(b *gcra.Bucket, p rotating.Position, cells *cms.Sketch, n, limit, whole int64) float64 {
	most := b.Most(limit, whole)
	if n < 1 || n > most {
		return 0
	}
	return bucketTail(b, p, cells, b.Flows(most-n, limit, whole))
}

// bucketTail returns the chance that a new key's bucket is full again more than so many ticks from now.
func bucketTail(b *gcra.Bucket, p rotating.Position, cells *cms.Sketch, ticks int64) float64 {
	least := min(int64(b.Beyond(p.Elapsed, 0))+ticks, math.MaxUint32)
	sum := 0.0
	for lane := range cells.Lanes() {
		chance := 1.0
		for row := range cells.Depth() {
			chance *= cells.Tail(row, lane, uint32(least))
		}
		sum += chance
	}
	return sum / float64(cells.Lanes())
}

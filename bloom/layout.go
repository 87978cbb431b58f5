package bloom

import (
	"fmt"
	"math/bits"
)

// Layout is the dimensions of a filter. Its methods mark keys in words of the
// caller's, of which it takes the first [Layout.Words]: many small filters of one
// layout need no headers of their own.
type Layout struct {
	blocks uint64
	probes int
}

// NewLayout returns the layout of a filter of so many bytes, a multiple of
// [BlockBytes], in which each key sets probes bits (1 … [MaxProbes]).
func NewLayout(bytes, probes int) (Layout, error) {
	if bytes < BlockBytes || bytes%BlockBytes != 0 {
		return Layout{}, fmt.Errorf("bloom: %d bytes, must be a multiple of %d", bytes, BlockBytes)
	}
	if probes < 1 || probes > MaxProbes {
		return Layout{}, fmt.Errorf("bloom: probes %d, must be 1 … %d", probes, MaxProbes)
	}
	return Layout{uint64(bytes / BlockBytes), probes}, nil
}

// Words returns the number of 64-bit words that the bits take.
func (l *Layout) Words() int { return int(l.blocks) * blockWords }

// Probes returns the number of bits that a key sets.
func (l *Layout) Probes() int { return l.probes }

// Test is [Filter.Test] on the bits in words[first:].
func (l *Layout) Test(words []uint64, first int, h uint64) bool {
	draw, lo := mix(h)
	block := uint64(first) + lo>>32*l.blocks>>32*blockWords
	if l.probes == 3 { // as limiters have it: without a loop all loads begin at once
		return words[block+draw>>6%blockWords]>>(draw&63)&
			(words[block+draw>>15%blockWords]>>(draw>>9&63))&
			(words[block+draw>>24%blockWords]>>(draw>>18&63))&1 != 0
	}
	missing := uint64(0)
	for left := l.probes; ; left -= probesPerDraw {
		d := draw
		for range min(left, probesPerDraw) {
			missing |= ^words[block+d>>6%blockWords] >> (d & 63)
			d >>= 9
		}
		if left <= probesPerDraw {
			return missing&1 == 0
		}
		draw, _ = mix(draw)
	}
}

// TestAndAdd is [Filter.TestAndAdd] on the bits in words[first:]. Of a key that may be
// there it writes nothing, so that the cache line may stay with other cores.
func (l *Layout) TestAndAdd(words []uint64, first int, h uint64) bool {
	draw, lo := mix(h)
	block := uint64(first) + lo>>32*l.blocks>>32*blockWords
	there := true
	for left := l.probes; ; left -= probesPerDraw {
		d := draw
		for range min(left, probesPerDraw) {
			if w := &words[block+d>>6%blockWords]; *w>>(d&63)&1 == 0 {
				*w |= 1 << (d & 63)
				there = false
			}
			d >>= 9
		}
		if left <= probesPerDraw {
			return there
		}
		draw, _ = mix(draw)
	}
}

// Block returns the first of the words that hold a key's bits, of those from words[first]
// on. They fill a cache line.
func (l *Layout) Block(first int, h uint64) int {
	_, lo := mix(h)
	return first + int(lo>>32*l.blocks>>32*blockWords)
}

// probesPerDraw is how many times the 9 bits that choose among 512 fit in 64.
const probesPerDraw = 7

// mix draws 64 bits from a hash, and 64 more whose upper half is fit to choose a
// block. Its constants differ from those of package cms: a key's place here says
// nothing of its cells there.
func mix(h uint64) (draw, lo uint64) {
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, 0xd1342543de82ef95)
	return hi ^ lo, lo
}

// Package bloom is a blocked Bloom filter: a set of any number of keys, in memory that
// is fixed at construction. It may report a key that was never added. It never misses a
// key that was added.
//
// All bits of a key lie in one block of 64 bytes, so a look-up reads one cache line,
// however many probes it makes. Some blocks get more keys than others. At the same size
// this costs some accuracy, compared with a filter that spreads its probes. [New] adds
// bits to make up for it.
//
// Keys are given as 64-bit hashes. The caller chooses the hash and its seed; all 64
// bits must be well mixed.
//
// Sources: B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors",
// CACM 13 (1970). F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and Space-Efficient
// Bloom Filters", WEA 2007 (blocked filters).
package bloom

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/bits-and-blooms/bitset"
)

// BlockBytes is the size of a block, a cache line. A filter is a whole number of
// blocks.
const BlockBytes = 64

// MaxProbes is the largest number of bits a key sets.
const MaxProbes = 28

const (
	blockWords = BlockBytes / 8
	blockBits  = BlockBytes * 8
)

// ErrMismatch is returned by [Filter.Merge] for filters of different dimensions.
var ErrMismatch = errors.New("dimensions differ")

// Filter is a set of hashed keys without false negatives. [Filter.FalsePositiveRate]
// tells how often it claims a key that it was never given.
//
// A Filter is made by [New], [NewBytes] or [Over]; the zero value can only be
// decoded into. It is not safe for concurrent use.
type Filter struct {
	Layout
	words []uint64       // the bits: whole blocks
	set   *bitset.BitSet // the same memory, for what concerns all of it
}

// New returns an empty filter that claims at most the share rate (above 0, below 1)
// of keys it was not given once it holds keys (1 …) distinct ones.
func New(keys int, rate float64) (*Filter, error) {
	bytes, probes, err := Dimensions(keys, rate)
	if err != nil {
		return nil, err
	}
	return NewBytes(bytes, probes)
}

// NewBytes returns an empty filter of so many bytes, a multiple of [BlockBytes], in
// which each key sets probes bits (1 … [MaxProbes]).
func NewBytes(bytes, probes int) (*Filter, error) {
	l, err := NewLayout(bytes, probes)
	if err != nil {
		return nil, err
	}
	words := make([]uint64, l.Words())
	return &Filter{l, words, bitset.From(words)}, nil
}

// Over is [NewBytes] on memory of the caller's, which belongs to the filter from
// then on. What the words hold is taken as the filter's bits.
func Over(words []uint64, probes int) (*Filter, error) {
	if len(words) == 0 || len(words)%blockWords != 0 {
		return nil, fmt.Errorf("bloom: %d words, must be a multiple of %d", len(words), blockWords)
	}
	l, err := NewLayout(8*len(words), probes)
	if err != nil {
		return nil, err
	}
	return &Filter{l, words, bitset.From(words)}, nil
}

// MemoryBytes returns the size of the filter with all its bits.
func (f *Filter) MemoryBytes() int {
	return int(unsafe.Sizeof(*f)+unsafe.Sizeof(*f.set)) + 8*cap(f.words)
}

// Add puts the key with hash h into the set.
func (f *Filter) Add(h uint64) { f.TestAndAdd(h) }

// Test reports whether the key with hash h may be in the set. False is certain.
func (f *Filter) Test(h uint64) bool { return f.Layout.Test(f.words, 0, h) }

// TestAndAdd puts the key with hash h into the set, and reports whether it may have been
// there before. False is certain.
func (f *Filter) TestAndAdd(h uint64) bool { return f.Layout.TestAndAdd(f.words, 0, h) }

// FillRatio returns the share of bits that are set, 0 … 1.
func (f *Filter) FillRatio() float64 {
	return float64(f.set.Count()) / (64 * float64(len(f.words)))
}

// FalsePositiveRate returns the chance that [Filter.Test] claims a key which was
// never added, exactly: the mean over blocks of (share of set bits) to the power
// of the probes.
func (f *Filter) FalsePositiveRate() float64 {
	return f.meanOverBlocks(func(set int) float64 {
		return math.Pow(float64(set)/blockBits, float64(f.probes))
	})
}

// Distinct estimates how many distinct keys were added, from the fill of each block
// (blocks fill unevenly, so the fill of the whole would tell too few). The standard
// error is below 1 % from some ten thousand keys on, and the estimate is useless
// once most bits are set: a full block counts as one with half a bit left.
func (f *Filter) Distinct() float64 {
	blocks := float64(len(f.words) / blockWords)
	return blocks * f.meanOverBlocks(func(set int) float64 {
		left := max(float64(blockBits-set), 0.5)
		return -math.Log(left/blockBits) / -math.Log1p(-1.0/blockBits) / float64(f.probes)
	})
}

// meanOverBlocks averages a function of the number of bits set in a block. There
// are 513 such numbers, so the function is called that often at most.
func (f *Filter) meanOverBlocks(of func(set int) float64) float64 {
	var blocks [blockBits + 1]int
	for w := f.words; len(w) > 0; w = w[blockWords:] {
		set := 0
		for _, word := range w[:blockWords] {
			set += bits.OnesCount64(word)
		}
		blocks[set]++
	}
	sum := 0.0
	for set, n := range blocks {
		if n > 0 {
			sum += float64(n) * of(set)
		}
	}
	return sum / float64(len(f.words)/blockWords)
}

// Clear empties the filter.
func (f *Filter) Clear() { f.set.ClearAll() }

// Merge adds the other filter's keys, hashed alike, to this one. Filters of other
// dimensions are refused with [ErrMismatch].
func (f *Filter) Merge(other *Filter) error {
	if len(f.words) != len(other.words) || f.probes != other.probes {
		return fmt.Errorf("bloom: merge %d bytes and %d probes into %d and %d: %w",
			8*len(other.words), other.probes, 8*len(f.words), f.probes, ErrMismatch)
	}
	f.set.InPlaceUnion(other.set)
	return nil
}

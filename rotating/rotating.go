// Package rotating says where the last few generations of anything are kept, in buffers that are made once and
// cleared in turn.
//
// A generation is one span of time, known by its number. Two buffers are a double buffer: the current generation and
// the previous one. When a later generation begins, the buffers of those that have passed are
// cleared and become those of the new ones; what the others hold is neither moved nor touched.
//
// Every generation has a seed of its own, for whoever hashes into its buffer: two
// keys that are unlucky in one generation are strangers in the next.
package rotating

// Turns returns how many of so many buffers (at least 1) change hands when the current generation
// is no longer from but to: those of the generations to, to-1, … hold what has passed, and are to be cleared. A
// generation that is not ahead changes nothing.
func Turns(from, to int64, buffers int) int {
	if to <= from {
		return 0
	}
	// The difference of two generations may not fit an int64, but does fit this.
	return int(min(uint64(to)-uint64(from), uint64(buffers)))
}

// Buffer returns which of so many buffers (at least 1) holds a generation, by its number: 0 … buffers-1. The
// numbers of the generations that are kept must not go below the least int64.
func Buffer(number int64, buffers int) int {
	if buffers <= 2 { // as most windows have, and without a division
		return int(number) & (buffers - 1)
	}
	i := int(number % int64(buffers))
	if i < 0 {
		i += buffers
	}
	return i
}

// Seed returns the seed of a generation, by its number: a step of a Weyl sequence, which is all different and none of
// which is the seed itself. It is for hashes that mix seed and key well, such as a product of 128 bits folded in two.
func Seed(seed uint64, number int64) uint64 { return seed + uint64(2*number+1)*0x9e3779b97f4a7c15 }

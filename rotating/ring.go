// Package rotating keeps the last few generations of anything that can be cleared,
// in memory that is fixed at construction.
//
// A generation is one span of time, known by its number. A [Ring] of two is the
// double buffer: the current generation and the previous one. Turning the ring
// clears the oldest buffer and makes it the new current one; what the others hold
// is neither moved nor touched.
//
// Every generation has a seed of its own, for whoever hashes into its buffer: two
// keys that are unlucky in one generation are strangers in the next.
package rotating

import "fmt"

// Clearer is what a [Ring] turns.
type Clearer interface {
	Clear()
}

// Ring holds the buffers of the current generation and of the len(buffers)-1 before
// it. It is made by [New] and is not safe for concurrent use.
type Ring[T Clearer] struct {
	buffers []T
	seeds   []uint64 // of the generation that each buffer holds
	current int      // index of the current generation's buffer
	number  int64    // the current generation
	seed    uint64
}

// New returns a ring over the buffers, all empty, whose current generation is
// number. One buffer makes a ring without a past. The seeds of the generations
// follow from seed and their numbers alone.
func New[T Clearer](seed uint64, number int64, buffers ...T) (*Ring[T], error) {
	if len(buffers) == 0 {
		return nil, fmt.Errorf("rotating: 0 buffers, must be at least 1")
	}
	r := &Ring[T]{buffers: buffers, seeds: make([]uint64, len(buffers)), seed: seed, number: number}
	for age := range buffers {
		r.seeds[r.index(age)] = r.seedOf(number - int64(age))
	}
	return r, nil
}

// Len returns the number of generations kept, the current one included.
func (r *Ring[T]) Len() int { return len(r.buffers) }

// Generation returns the number of the current generation.
func (r *Ring[T]) Generation() int64 { return r.number }

// At returns the buffer and the seed of the generation that is age (0 … Len()-1)
// before the current one.
func (r *Ring[T]) At(age int) (buffer T, seed uint64) {
	i := r.index(age)
	return r.buffers[i], r.seeds[i]
}

// Advance makes number the current generation, and returns how many buffers it
// cleared for that: one for each generation that begins, all at most. A number that
// is not ahead of the current generation changes nothing.
func (r *Ring[T]) Advance(number int64) int {
	if number <= r.number {
		return 0
	}
	// The difference of two generations may not fit an int64, but does fit this.
	turns := int(min(uint64(number)-uint64(r.number), uint64(len(r.buffers))))
	r.number = number
	for age := turns - 1; age >= 0; age-- {
		r.current++
		if r.current == len(r.buffers) {
			r.current = 0
		}
		r.buffers[r.current].Clear()
		r.seeds[r.current] = r.seedOf(number - int64(age))
	}
	return turns
}

// Follow makes the ring stand where another of the same length stands. It leaves the
// buffers alone: whoever copies what is in them does so in the order they were
// given to [New].
func (r *Ring[T]) Follow(other *Ring[T]) {
	copy(r.seeds, other.seeds)
	r.current, r.number, r.seed = other.current, other.number, other.seed
}

func (r *Ring[T]) index(age int) int {
	i := r.current - age
	if i < 0 {
		i += len(r.buffers)
	}
	return i
}

// seedOf is SplitMix64 (Steele, Lea, Flood 2014), indexed by the generation.
func (r *Ring[T]) seedOf(number int64) uint64 {
	z := r.seed + uint64(number)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Package rotating keeps the last few generations of anything that can be cleared, in memory
// that is fixed at construction.
//
// A generation is one span of time, known by its number. A [Ring] of two is the double
// buffer: the current generation and the previous one. Turning the ring clears the oldest
// buffer and makes it the current one. The other buffers are neither moved nor changed. A
// [Wheel] says which buffer holds which generation, for callers who keep the buffers
// themselves.
//
// Every generation has a seed of its own for the hashes of its buffer. So two keys that
// collide in one generation do not collide in the next, except by chance.
package rotating

import "fmt"

// Clearer is what a [Ring] turns.
type Clearer interface {
	Clear()
}

// Wheel tells which of a number of buffers holds which generation, for whoever keeps
// the buffers. It is made by [NewWheel] and is not safe for concurrent use.
type Wheel struct {
	number  int64 // the current generation
	current int32 // index of its buffer
	buffers int32
}

// NewWheel returns a wheel of so many buffers (at least 1) whose current generation
// is number. One buffer makes a wheel without a past.
func NewWheel(buffers int, number int64) (Wheel, error) {
	if buffers < 1 {
		return Wheel{}, fmt.Errorf("rotating: %d buffers, must be at least 1", buffers)
	}
	return Wheel{number: number, current: int32(Buffer(number, buffers)), buffers: int32(buffers)}, nil
}

// Len returns the number of generations kept, the current one included.
func (w *Wheel) Len() int { return int(w.buffers) }

// Generation returns the number of the current generation.
func (w *Wheel) Generation() int64 { return w.number }

// Index returns the buffer of the generation that is age (0 … Len()-1) before the
// current one.
func (w *Wheel) Index(age int) int {
	i := int(w.current) - age
	if i < 0 {
		i += int(w.buffers)
	}
	return i
}

// Advance makes number the current generation, and returns how many begin with that,
// Len() at most: their buffers, those of age 0 to turns-1, hold what has passed and
// are to be cleared. A number that is not ahead of the current generation changes
// nothing.
func (w *Wheel) Advance(number int64) (turns int) {
	if turns = Turns(w.number, number, int(w.buffers)); turns > 0 {
		w.number = number
		w.current = int32(Buffer(number, int(w.buffers)))
	}
	return turns
}

// Turns returns how many of so many buffers (at least 1) change hands when the current generation
// is no longer from but to: [Wheel.Advance] for whoever keeps the number alone.
func Turns(from, to int64, buffers int) int {
	if to <= from {
		return 0
	}
	// The difference of two generations may not fit an int64, but does fit this.
	return int(min(uint64(to)-uint64(from), uint64(buffers)))
}

// Buffer returns which of so many buffers (at least 1) holds a generation, by its number:
// [Wheel.Index] for whoever does not have the wheel at hand.
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

// Seed returns the seed of a generation, by its number. It is SplitMix64 (Steele,
// Lea, Flood 2014), indexed by the generation: neighbours are strangers.
func Seed(seed uint64, number int64) uint64 {
	z := seed + uint64(number)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Ring holds the buffers of the current generation and of those before it. It is made
// by [New] and is not safe for concurrent use.
type Ring[T Clearer] struct {
	Wheel
	buffers []T
	seed    uint64
}

// New returns a ring over the buffers, all empty, whose current generation is
// number. The seeds of the generations follow from seed and their numbers alone.
func New[T Clearer](seed uint64, number int64, buffers ...T) (*Ring[T], error) {
	w, err := NewWheel(len(buffers), number)
	if err != nil {
		return nil, err
	}
	return &Ring[T]{w, buffers, seed}, nil
}

// At returns the buffer and the seed of the generation that is age (0 … Len()-1)
// before the current one.
func (r *Ring[T]) At(age int) (buffer T, seed uint64) {
	return r.buffers[r.Index(age)], Seed(r.seed, r.number-int64(age))
}

// Advance makes number the current generation, and returns how many buffers it
// cleared for that: one for each generation that begins, all at most. A number that
// is not ahead of the current generation changes nothing.
func (r *Ring[T]) Advance(number int64) int {
	turns := r.Wheel.Advance(number)
	for age := range turns {
		r.buffers[r.Index(age)].Clear()
	}
	return turns
}

package rotating

// Ring maps generations to buffers, by their index. It holds neither the buffers nor
// the current generation. Its zero value is not valid.
type Ring struct{ buffers int }

// NewRing returns a ring of ≥ 1 buffers.
func NewRing(buffers int) Ring { return Ring{buffers} }

// Buffers returns the number of buffers.
func (r Ring) Buffers() int { return r.buffers }

// Buffer returns the index of the buffer that holds a generation: 0 … Buffers-1. The
// generations that are kept must not go below the least int64.
func (r Ring) Buffer(generation int64) int {
	if r.buffers <= 2 { // as most windows have, and without a division
		return int(generation) & (r.buffers - 1)
	}
	i := int(generation % int64(r.buffers))
	if i < 0 {
		i += r.buffers
	}
	return i
}

// Expired returns how many buffers expire when the current generation becomes to
// instead of from: 0 … Buffers. They are those of the generations to, to-1, … A
// generation that is not ahead expires none.
func (r Ring) Expired(from, to int64) int {
	if to <= from {
		return 0
	}
	// The difference of two generations may not fit an int64, but does fit this.
	return int(min(uint64(to)-uint64(from), uint64(r.buffers)))
}

// Rotate makes to the current generation instead of from. It calls reset for each
// buffer that expires, and returns their number. A generation that is not ahead changes
// nothing.
func (r Ring) Rotate(from, to int64, reset func(buffer int)) (expired int) {
	expired = r.Expired(from, to)
	for age := range expired {
		reset(r.Buffer(to - int64(age)))
	}
	return expired
}

// Seed returns the seed of a generation: a step of a Weyl sequence, whose values all
// differ from each other and from seed. It is for hashes that mix seed and key well,
// such as a product of 128 bits folded in two.
func Seed(seed uint64, generation int64) uint64 {
	return seed + uint64(2*generation+1)*0x9e3779b97f4a7c15
}

package gcra

import "math/bits"

// fraction is whole + part/of, where part < of ≤ 1<<62.
type fraction struct {
	whole, part, of uint64
	inverse         uint64 // part/of × 1<<64, rounded down
}

func newFraction(a, b int64) fraction {
	r := fraction{whole: uint64(a / b), part: uint64(a % b), of: uint64(b)}
	r.inverse, _ = bits.Div64(r.part, 0, r.of)
	return r
}

// times returns n×r rounded down, for n below 1<<63, and whether there was anything to
// round.
func (r *fraction) times(n uint64) (q uint64, rounded bool) {
	if r.part == 0 {
		return n * r.whole, false
	}
	q, _ = bits.Mul64(n, r.inverse)
	rest := n*r.part - q*r.of // below 2×r.of
	if rest >= r.of {
		q, rest = q+1, rest-r.of
	}
	return n*r.whole + q, rest > 0
}

// up is times rounded up.
func (r *fraction) up(n uint64) int64 {
	q, rounded := r.times(n)
	if rounded {
		q++
	}
	return int64(q)
}

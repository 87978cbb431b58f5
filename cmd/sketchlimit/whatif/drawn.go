package whatif

import (
	"maps"
	"math"
)

// drawn is a set of keys, drawn by hash from all that are added: those whose hash ends
// in so many zero bits. When it is full it asks for one more zero, and keeps half of
// its keys.
type drawn struct {
	zeros int
	most  int
	keys  map[uint64]struct{}
}

// ends says whether a hash ends in so many zero bits.
func ends(h uint64, zeros int) bool { return h&(1<<zeros-1) == 0 }

// add adds a key to those that are drawn from.
func (d *drawn) add(h uint64) {
	if !ends(h, d.zeros) {
		return
	}
	if d.keys == nil {
		d.keys = make(map[uint64]struct{})
	}
	d.keys[h] = struct{}{}
	for len(d.keys) > d.most {
		d.narrow(d.zeros + 1)
	}
}

// narrow asks for so many zeros at least.
func (d *drawn) narrow(zeros int) {
	if zeros > d.zeros {
		d.zeros = zeros
		maps.DeleteFunc(d.keys, func(h uint64, _ struct{}) bool { return !ends(h, zeros) })
	}
}

func (d *drawn) estimate() Estimate { return drawnFrom(len(d.keys), d.zeros) }

// drawnFrom is from how many keys n were drawn that end in so many zeros, each with
// chance 1/2^zeros. The error is five standard deviations, and what they leave out
// where n is small.
func drawnFrom(n, zeros int) Estimate {
	scale := math.Ldexp(1, zeros)
	if zeros == 0 {
		return Estimate{Value: float64(n)}
	}
	return Estimate{Value: float64(n) * scale, Error: (deviations*math.Sqrt(float64(n)) + fewest) * scale}
}

// A figure that rests on drawn keys is told with five standard deviations: they are
// estimated from drawn keys too, and come out low where few keys make up the figure.
// Where few keys were drawn, their number is no normal one. As many more as fewest
// could have been missed with a chance of 1 in 3,000.
const (
	deviations = 5
	fewest     = 8
)

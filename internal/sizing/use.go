package sizing

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/spec"
)

const (
	// usualUse is the share of their limit that keys use on average where nobody says.
	usualUse = 0.2
	// usualRate is the rate that usedBytes are for.
	usualRate = 1e-5
)

// usedBytes are the bytes a key of a sliding window whose keys use all of their limit on average, by the bits of its
// cells: what fills cells is units, and what a unit takes of the limit is what others lose. At two fifths, that is at twice
// the usual use, 1.6, 2.8 and 5.7 bytes were enough, with one key in a hundred above its limit; this is a quarter more.
var usedBytes = map[int]float64{4: 5, 8: 9, 16: 18}

// used returns the bytes that so many keys take by their units, of a limiter whose row of the table this is. Lower rates
// take as much more as they do there.
func (n *Need) used(row *sized, keys int) float64 {
	use := usualUse
	if n.Units > 0 {
		use = n.Units / float64(n.Lowest)
	}
	bytes := float64(keys) * usedBytes[spec.CellBits(int(n.Rule.Limit))] * use * n.Headroom
	bytes *= float64(n.Rule.Generations()) / 2 // sub-windows have fewer units each, and what they read too much adds up
	return bytes * math.Max(1, row.bytesFor(n.Rate)/row.bytesFor(usualRate))
}

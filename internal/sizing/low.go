package sizing

import "math"

// lowSize is what a key takes in a window of a low limit, at the rates of lowRates,
// while there are twice as many keys as stated, all of them new in each window and one
// in a hundred asking for three times the limit. Measured by `go run ./bench/sizes -low
// RATE`.
type lowSize struct {
	limit int
	// Keys use a fifth of the limit, by one unit at least; half of it; all of it.
	light, half, all [2]float64
}

var lowRates = [2]float64{1e-4, 1e-6}

const (
	// lowHeadroom is the multiple of the stated keys that lowSizes were measured with.
	lowHeadroom = 2
	// loosestRate is the highest rate for which less memory is taken.
	loosestRate = 1e-2
	// lowUpTo is the highest limit of lowSizes: those above have a table of heavy
	// hitters.
	lowUpTo = 16
)

// lowShape is that of the lowSizes. The Bloom filter is asked first: where any unit of
// others is much of the limit, it keeps keys of one unit out of the sketch.
var lowShape = Shape{Depth: 6, Probes: 4, Filter: 0.35}

// lowSize returns the row of a low limit that all requests have; nil if there is none.
func (n *Need) lowSize() (row *lowSize) {
	table := slidingLow
	switch limit := int(n.Rule.Limit); {
	case n.Rule.IsBucket() || n.Rule.Generations() > 2 || limit < 2 || limit > lowUpTo || n.Lowest != limit:
		return nil
	case n.Rule.Generations() == 1:
		table = fixedLow
	}
	for i := range table {
		if int(n.Rule.Limit) >= table[i].limit {
			row = &table[i]
		}
	}
	return row
}

// lowBytes returns the bytes that so many keys take by a row: between two uses in
// proportion, which is above what is needed, and between two rates, and beyond them, as
// a power of the rate.
func (n *Need) lowBytes(row *lowSize, keys int) float64 {
	limit := float64(n.Rule.Limit)
	units := n.Units
	if units == 0 {
		units = defaultUse * limit
	}
	units = min(max(1, units), limit)
	light := max(1, defaultUse*limit)
	half := max(light, limit/2)
	var bytes [2]float64
	for i := range bytes {
		switch {
		case units <= light:
			bytes[i] = row.light[i]
		case units <= half:
			bytes[i] = row.light[i] + (row.half[i]-row.light[i])*(units-light)/(half-light)
		default:
			bytes[i] = row.half[i] + (row.all[i]-row.half[i])*(units-half)/(limit-half)
		}
	}
	power := math.Log(min(n.Rate, loosestRate)/lowRates[0]) / math.Log(lowRates[1]/lowRates[0])
	perKey := bytes[0] * math.Pow(bytes[1]/bytes[0], power)
	return float64(keys) * perKey * math.Max(tableHeadroom, n.Headroom) / lowHeadroom
}

// slidingLow are those of sliding windows: at 1e-4 mostly a seventh above what held the
// rate. At 1e-6 the light ones of limits up to 8 were measured; half and all are taken to
// need 1.7 times the memory, and the light ones of 16 to need those of 8.
var slidingLow = []lowSize{
	{2, [2]float64{10.3, 17.2}, [2]float64{10.3, 17.2}, [2]float64{37, 63}},
	{3, [2]float64{4.7, 7.6}, [2]float64{14, 24}, [2]float64{39, 66}},
	{5, [2]float64{3.7, 6.5}, [2]float64{11, 19}, [2]float64{33, 56}},
	{8, [2]float64{3.28, 4.2}, [2]float64{8.2, 14}, [2]float64{29, 49}},
	{16, [2]float64{3.28, 4.2}, [2]float64{7.4, 13}, [2]float64{39, 66}},
}

// fixedLow are those of fixed windows. At 1e-6 all are taken to need 1.7 times the
// memory.
var fixedLow = []lowSize{
	{2, [2]float64{2.4, 4}, [2]float64{2.4, 4}, [2]float64{7.9, 14}},
	{3, [2]float64{1.9, 3.2}, [2]float64{4.7, 8}, [2]float64{20, 34}},
	{5, [2]float64{1.7, 2.8}, [2]float64{4, 7}, [2]float64{17, 29}},
	{16, [2]float64{1.7, 2.8}, [2]float64{3.7, 6.5}, [2]float64{20, 34}},
}

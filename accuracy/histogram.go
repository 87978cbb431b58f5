package accuracy

import (
	"encoding/json"
	"math"
	"math/bits"
)

// Histogram counts non-negative integers: exactly below 32, in bins at most 1/16
// of their value wide above, as HDR histograms do. The zero value is empty and
// ready to use; a copy shares its bins. Its JSON form is
//
//	{"count", "mean", "max", "p50", "p99", "p999", "bins": [{"from", "to", "count"}…]}
type Histogram struct {
	bins  []uint64
	count uint64
	sum   float64
	max   int
}

// Bin is a non-empty stretch of a histogram: From … To, both included.
type Bin struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Count uint64 `json:"count"`
}

const (
	exactBins = 32 // values below have a bin each
	subBins   = 16 // bins of every power of two above
)

func binOf(v int) int {
	if v < exactBins {
		return v
	}
	e := bits.Len64(uint64(v)) - 1 // 5 …
	return exactBins + (e-5)*subBins + (v>>(e-4))&(subBins-1)
}

func binBounds(i int) (from, to int) {
	if i < exactBins {
		return i, i
	}
	e, sub := 5+(i-exactBins)/subBins, (i-exactBins)%subBins
	from = (subBins + sub) << (e - 4)
	return from, from + 1<<(e-4) - 1
}

// Add counts v; a negative v counts as 0.
func (h *Histogram) Add(v int) {
	v = max(v, 0)
	i := binOf(v)
	for i >= len(h.bins) {
		h.bins = append(h.bins, 0)
	}
	h.bins[i]++
	h.count++
	h.sum += float64(v)
	h.max = max(h.max, v)
}

// Count is the number of entries.
func (h *Histogram) Count() uint64 { return h.count }

// Mean is the exact mean of the entries; 0 if there are none.
func (h *Histogram) Mean() float64 { return ratio(h.sum, float64(h.count)) }

// Max is the largest entry; 0 if there are none.
func (h *Histogram) Max() int { return h.max }

// Quantile is the smallest value that at least a share q of the entries do not
// exceed, rounded up to the end of its bin but not past Max; 0 if there are none.
func (h *Histogram) Quantile(q float64) int {
	need := uint64(math.Ceil(q * float64(h.count)))
	var seen uint64
	for i, n := range h.bins {
		if seen += n; n > 0 && seen >= need {
			_, to := binBounds(i)
			return min(to, h.max)
		}
	}
	return h.max
}

// Bins are the non-empty bins in ascending order.
func (h *Histogram) Bins() []Bin {
	bins := []Bin{}
	for i, n := range h.bins {
		if n > 0 {
			from, to := binBounds(i)
			bins = append(bins, Bin{from, to, n})
		}
	}
	return bins
}

// MarshalJSON writes the form described at the type.
func (h Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count uint64  `json:"count"`
		Mean  float64 `json:"mean"`
		Max   int     `json:"max"`
		P50   int     `json:"p50"`
		P99   int     `json:"p99"`
		P999  int     `json:"p999"`
		Bins  []Bin   `json:"bins"`
	}{h.count, h.Mean(), h.max, h.Quantile(.5), h.Quantile(.99), h.Quantile(.999), h.Bins()})
}

// ratio is a/b, and 0 where there is nothing to divide by: JSON knows no NaN.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

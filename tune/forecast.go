package tune

import (
	"math"

	"github.com/sketchlimit/sketchlimit/tune/internal/poisson"
)

// breakingRate is the share of the requests of light keys that counts as everybody.
const breakingRate = 0.1

// Forecast is what is expected of a plan.
type Forecast struct {
	MemoryBytes int         // everything included
	Keys        float64     // distinct keys in a generation (a window or sub-window) of the stated traffic
	At          [5]Expected // at 0.5, 1, 2, 4 and 10 times the stated traffic
	// BreakingPoint is the multiple of the stated traffic from which the limiter denies
	// everybody: more than one in ten requests of light keys. At most 64, which
	// stands for more as well.
	BreakingPoint float64
}

// Expected is what a limiter gets wrong under some load.
type Expected struct {
	Load            float64 // multiple of the stated traffic, keys and requests alike
	FalseDenialRate float64 // 0 … 1, see [Goal]
	LostShare       float64 // 0 … 1, see [Goal]
	EstimateError   float64 // units held against a key beyond what it has used, mean over requests

	// The two rates, where luck leaves them: in one window of the stated traffic, or in
	// the whole of a trace. They are known for Load 1 of a limiter with few requests,
	// up to about 200,000 in a window, and for a trace of up to a million; not for a
	// TokenBucket without a trace.
	FalseDenialRange, LostRange Range

	// Replayed and ReplayedUnits are the requests of light keys and the units on which
	// the two rates were counted, in replays of Traffic.Trace. They are 0 where the
	// rates are predicted.
	Replayed, ReplayedUnits uint64
}

// forecastLoads are those of Forecast.At.
var forecastLoads = [...]float64{0.5, 1, 2, 4, 10}

// Stated returns what is expected under the traffic as stated.
func (f *Forecast) Stated() Expected { return f.At[1] }

// Range is where luck leaves a rate: of limiters that differ in their seeds alone, one
// in twenty lies below Low and one in twenty above High. It is zero where that is not
// known.
type Range struct{ Low, High float64 }

// minRangeSeeds are the rates that rangeOf needs: with fewer, a range would be luck
// itself.
const minRangeSeeds = 8

// rangeOf returns the range that rates of limiters with different seeds come from.
// Wrongs come together, so the rates are taken as multiples of a Poisson count that has
// their mean and variance.
func rangeOf(rates []float64) Range {
	n, sum, squares := float64(len(rates)), 0., 0.
	for _, r := range rates {
		sum += r
	}
	mean := sum / n
	for _, r := range rates {
		squares += (r - mean) * (r - mean)
	}
	variance := squares / (n - 1) * (1 + 1/n) // of another one, by a mean that errs as well
	if !(mean > 0 && variance > 0) {
		return Range{}
	}
	each, count := variance/mean, mean*mean/variance
	return Range{each * poisson.Quantile(count, 0.05), each * poisson.Quantile(count, 0.95)}
}

// meanAndDeviation returns the mean and a standard deviation.
func meanAndDeviation(x []float64) float64 {
	n, sum, squares := float64(len(x)), 0., 0.
	for _, v := range x {
		sum += v
	}
	for _, v := range x {
		squares += (v - sum/n) * (v - sum/n)
	}
	return sum/n + math.Sqrt(squares/n)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

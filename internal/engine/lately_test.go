package engine

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Once a byte is full in any stripe, all stripes count half.
func TestLatelyFades(t *testing.T) {
	var c Counter
	for i := range c {
		l := &c[i].lately
		l.requests.Store(100)
		l.units.Store(1000)
		for range 254 {
			l.used.add(3)
		}
	}
	c.admit(10, 3, noKind) // to whichever stripe: the stacks of goroutines move
	var requests, units uint64
	sum := 0.0
	for i := range c {
		l := &c[i].lately
		requests, units, sum = requests+l.requests.Load(), units+l.units.Load(), sum+l.used.count(3)
	}
	require.EqualValues(t, stripes*127, sum)
	require.EqualValues(t, stripes*50, requests)
	require.EqualValues(t, (stripes*1000+10)/2, units)

	for i := range 100_000 {
		c.admit(10, i%kinds, i%uses)
	}
	r := c.lately()
	require.InDelta(t, 1./kinds, r.used[3], 0.01)
	require.InDelta(t, 10, r.cost, 0.1)
}

// What is taken down on many goroutines at once may be lost in part, and is never out of range.
func TestLatelyByManyGoroutines(t *testing.T) {
	var c Counter
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 20_000 {
				c.admit(3, i%uses, noKind)
			}
		})
	}
	all.Wait()
	r := c.lately()
	require.InDelta(t, 3, r.cost, 0.5)
	sum := 0.0
	for _, share := range r.used {
		sum += share
	}
	require.InDelta(t, 1, sum, 1e-9)
}

// Keys that read as much as strangers have used nothing; those that read ten units more have used ten.
func TestAskedLeavesOutWhatOthersHaveUsed(t *testing.T) {
	const quota = 150 // ten units a kind
	r := recent{}
	r.used[3], r.used[4] = 0.5, 0.5
	r.fresh = r.used
	units, weights, of := r.asked(1, quota)
	require.Equal(t, []int64{1, 1, 1}, units[:of])
	require.Equal(t, []float64{0, 0.5, 0.5}, weights[:of])
	r.fresh = [kinds]float64{2: 0.5, 3: 0.5}
	units, _, of = r.asked(1, quota)
	require.Equal(t, []int64{1, 11, 11}, units[:of])
	r.fresh = [kinds]float64{0: 1}
	units, _, of = r.asked(5, quota)
	require.Equal(t, []int64{5, 35, 45}, units[:of])
}

func TestUseOfIsTheInverseOfUnits(t *testing.T) {
	for _, quota := range []int64{2, 5, 10, 100, 1000, 1 << 40} {
		for units := int64(0); units < min(quota, 2000); units++ {
			require.InDelta(t, units, unitsOf(useOf(units, quota), quota), max(0.5, float64(quota)/uses), "%d of %d", units, quota)
		}
	}
	require.EqualValues(t, []float64{0, 1, 2}, []float64{unitsOf(useOf(0, 5), 5), unitsOf(useOf(1, 5), 5), unitsOf(useOf(2, 5), 5)})
}

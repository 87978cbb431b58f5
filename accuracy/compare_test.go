package accuracy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compare(t *testing.T, src Source, limit int) map[string]AlgorithmRow {
	t.Helper()
	list, err := Compare(context.Background(), src, limit, 10*time.Second, Options{})
	require.NoError(t, err)
	require.Equal(t, "sliding log", list[0].Algorithm)
	byName := make(map[string]AlgorithmRow)
	for _, r := range list {
		byName[r.Algorithm] = r
	}
	require.Len(t, byName, 8)
	gcra := byName["GCRA"]
	gcra.Algorithm = "token bucket"
	require.Equal(t, byName["token bucket"], gcra)
	return byName
}

// Twice the limit around the border of two windows: 2 units at the end of the first,
// 2 at the beginning of the second, limit 2. The fixed window lets both pairs pass;
// the weighted window, which still sees (almost) all of the first pair, does not, and
// the log agrees with it.
func TestCompareAtTheBorderOfWindows(t *testing.T) {
	src := list{{at(9), "a", 1}, {at(9.5), "a", 1}, {at(10), "a", 1}, {at(10.5), "a", 1}}
	r := compare(t, src, 2)
	assert.Equal(t, AlgorithmRow{"sliding log", 4, 2, 2, 0, 0, 1, 1, Sample{1, 4, 4}}, r["sliding log"])
	assert.Equal(t, AlgorithmRow{"fixed window", 4, 4, 4, 2, 0, 2, 1, Sample{1, 4, 4}}, r["fixed window"])
	assert.Equal(t, AlgorithmRow{"sliding window", 4, 2, 2, 0, 0, 1, 1, Sample{1, 4, 4}}, r["sliding window"])
}

// The weighted window does not know that both units came at the very beginning of the
// window: shortly after the next has begun it still holds nearly two against the key.
func TestCompareRefusedEarly(t *testing.T) {
	src := list{{at(0), "a", 1}, {at(0.1), "a", 1}, {at(10.2), "a", 1}}
	r := compare(t, src, 2)
	assert.Equal(t, AlgorithmRow{"sliding log", 3, 3, 3, 0, 0, 1, 1, Sample{1, 3, 3}}, r["sliding log"])
	assert.Equal(t, AlgorithmRow{"sliding window", 3, 2, 2, 0, 1, 1, 1, Sample{1, 3, 3}}, r["sliding window"])
	// One unit comes back to the bucket every 5 s.
	assert.Equal(t, AlgorithmRow{"token bucket", 3, 3, 3, 0, 0, 1, 1, Sample{1, 3, 3}}, r["token bucket"])
}

// A full bucket, and what flows back while it is being emptied: up to twice the limit
// in one window. Where it comes back at once, no more passes in this one.
func TestCompareTokenBucket(t *testing.T) {
	var src list
	for i := range 100 { // every 0.1 s for 10 s, limit 10: 10 at once, then one each second
		src = append(src, Request{at(float64(i) / 10), "a", 1})
	}
	all := compare(t, src, 10)
	assert.Equal(t, uint64(10), all["token bucket, in portions"].AdmittedUnits)
	r := all["token bucket"]
	assert.Equal(t, uint64(19), r.AdmittedUnits)
	assert.Equal(t, 1.9, r.PeakLoad)
	assert.Equal(t, 1.0, r.PeakTenth)
	tenth := all["GCRA, a tenth as burst"] // one a second
	assert.Equal(t, [3]float64{10, 1, 0.1}, [3]float64{float64(tenth.AdmittedUnits), tenth.PeakLoad, tenth.PeakTenth})
	assert.Equal(t, uint64(9), r.LetThrough)
}

// On any traffic: the log agrees with itself, fixed windows let through at most twice
// the limit and refuse nothing early.
func TestCompareInvariants(t *testing.T) {
	r := compare(t, source(t, "zipf:1,keys=500,requests=30000,window=10s,cost=3"), 20)
	log := r["sliding log"]
	assert.Zero(t, log.LetThrough+log.RefusedEarly)
	assert.LessOrEqual(t, log.PeakLoad, 1.)
	fixed := r["fixed window"]
	assert.Positive(t, fixed.LetThrough)
	assert.LessOrEqual(t, fixed.PeakLoad, 2.)
	assert.Greater(t, fixed.PeakLoad, 1.)
	for name, row := range r {
		assert.Equal(t, uint64(30000), row.Requests, name)
		assert.Positive(t, row.AdmittedUnits, name)
	}
}

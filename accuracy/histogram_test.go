package accuracy

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Bins follow each other without gap or overlap, as narrow as promised, up to the
// largest int.
func TestHistogramBins(t *testing.T) {
	next := 0
	for i := 0; ; i++ {
		from, to := binBounds(i)
		require.Equal(t, next, from)
		require.Equal(t, i, binOf(from))
		require.Equal(t, i, binOf(to))
		require.LessOrEqual(t, to-from, from/16)
		if i < exactBins {
			require.Equal(t, from, to)
		}
		if to == math.MaxInt {
			return
		}
		next = to + 1
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	assert.Zero(t, h.Mean())
	assert.Zero(t, h.Quantile(.5))
	for v := range 100 {
		h.Add(v)
	}
	h.Add(-5)
	assert.Equal(t, uint64(101), h.Count())
	assert.InDelta(t, 4950./101, h.Mean(), 1e-12)
	assert.Equal(t, 99, h.Max())
	assert.Equal(t, 0, h.Quantile(0))
	assert.Equal(t, 0, h.Quantile(2./101), "0 was added twice")
	assert.Equal(t, 1, h.Quantile(3./101))
	assert.Equal(t, 49, h.Quantile(.5), "the 51st of 101, the end of its bin 48 … 49")
	assert.Equal(t, 99, h.Quantile(1))
	var n uint64
	for _, b := range h.Bins() {
		n += b.Count
	}
	assert.Equal(t, h.Count(), n)

	h = Histogram{}
	h.Add(3)
	b, err := json.Marshal(struct{ H Histogram }{h})
	require.NoError(t, err)
	assert.JSONEq(t, `{"H":{"count":1,"mean":3,"max":3,"p50":3,"p99":3,"p999":3,"bins":[{"from":3,"to":3,"count":1}]}}`, string(b))
	b, err = json.Marshal(Histogram{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"count":0,"mean":0,"max":0,"p50":0,"p99":0,"p999":0,"bins":[]}`, string(b))
}

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowOnce waits once in a thousand decisions.
type slowOnce struct{ n int }

func (s *slowOnce) Allow(string) bool {
	if s.n++; s.n%1000 == 0 {
		time.Sleep(time.Millisecond)
	}
	return true
}

func TestTimeEachSeesTheSlowDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistogram()
		require.NoError(t, timeEach(&slowOnce{}, uniform(20_000), 0, 20, h))
		assert.EqualValues(t, 20_000, h.TotalCount())
		assert.Greater(t, h.ValueAtQuantile(99.95), int64(time.Millisecond)*99/100)
	})
}

// no denies everything.
type no struct{}

func (no) Allow(string) bool { return false }

func TestTimeEachWantsAdmissions(t *testing.T) {
	assert.EqualError(t, timeEach(no{}, hot(1, 1), 0, 2, newHistogram()), "latency: 0 of 2000 requests admitted, want all")
}

func TestTimingsAreMediansOfTheirPasses(t *testing.T) {
	passes := func(values ...int64) (t timings) {
		for _, v := range values {
			h := hdrhistogram.New(1, int64(time.Minute), 3)
			h.RecordValues(v, 10)
			t.add(h)
		}
		return t
	}
	l := latency{turning: passes(300, 100, 900), still: passes(100, 100, 100)}
	assert.Equal(t, 300.0, l.turning.at(99.9))
	assert.Equal(t, 3.0, l.ratio(99.9))
	assert.EqualValues(t, 30, l.turning.all.TotalCount())
}

func TestCurveEndsAtTheSlowest(t *testing.T) {
	h := newHistogram()
	for v := range int64(1000) {
		require.NoError(t, h.RecordValue(v+1))
	}
	var all timings
	all.add(h)
	points := curve(all)
	assert.Equal(t, 2.0, points[0].X)
	assert.Equal(t, 500.0, points[0].Y)
	end := points[len(points)-1]
	assert.Equal(t, 1000.0, end.X)
	assert.InDelta(t, 999, end.Y, 1)
}

func TestNines(t *testing.T) {
	var labels []string
	for _, tick := range nines(2, 1e6) {
		labels = append(labels, tick.Label)
	}
	assert.Equal(t, []string{"50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"}, labels)
}

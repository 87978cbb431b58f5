package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/exact"
)

// testDivisor makes loads small.
const testDivisor = 256

// perfect counts every key in a map.
type perfect map[uint64]uint32

func (p perfect) estimate(h uint64) uint32      { return p[h] }
func (p perfect) add(h uint64, estimate uint32) { p[h] = estimate + 1 }
func (p perfect) clear()                        { clear(p) }
func (p perfect) bits() int                     { return 0 }

// forgetful counts every second unit: its limiter admits too much.
type forgetful struct{ perfect }

func (f forgetful) estimate(h uint64) uint32 { return f.perfect[h] / 2 }
func (f forgetful) add(h uint64, _ uint32)   { f.perfect[h]++ }

// stingy counts every unit twice: its limiter withholds half.
type stingy struct{ perfect }

func (s stingy) add(h uint64, estimate uint32) { s.perfect[h] = estimate + 2 }

// judged replays a load through a sketch.
func judged(t *testing.T, l load, k kind, build func() sketch) outcome {
	s, err := l.stream(3, testDivisor, 1)
	require.NoError(t, err)
	return judge(s, k, exactly(s, k), newCounting(func(int, setting) sketch { return build() }, nil, k, 0))
}

func TestAPerfectSketchHasNoErrors(t *testing.T) {
	for _, l := range loads {
		for _, k := range kinds {
			o := judged(t, l, k, func() sketch { return perfect{} })
			assert.Positive(t, o.innocents)
			assert.Equal(t, outcome{exact: o.admitted, admitted: o.admitted, innocents: o.innocents}, o, "%s, %v", l.name, k)
		}
	}
}

func TestOverAdmissionsAreCounted(t *testing.T) {
	for _, k := range kinds {
		o := judged(t, loads[3], k, func() sketch { return forgetful{perfect{}} })
		assert.Greater(t, o.overAdmissions(), 0.1)
		if k == fixed {
			assert.Equal(t, o.exact, o.admitted-o.over, "what is admitted wrongly comes on top")
		}
		assert.Zero(t, o.falseDenials())
		assert.Zero(t, o.withheld())
		assert.Negative(t, o.meanError())
	}
}

func TestWithheldUnitsAreCounted(t *testing.T) {
	o := judged(t, loads[3], fixed, func() sketch { return stingy{perfect{}} })
	assert.Zero(t, o.over)
	assert.InDelta(t, float64(loads[3].abusers/testDivisor*limit/2*3)/float64(o.exact), o.withheld(), 0.001)
	assert.Positive(t, o.meanError())
}

// TestLedgerIsExact holds the exact counts to package exact.
func TestLedgerIsExact(t *testing.T) {
	fixedWindow, err := exact.NewFixedWindow(limit, window)
	require.NoError(t, err)
	slidingWindow, err := exact.NewSlidingWindow(limit, window)
	require.NoError(t, err)
	for k, oracle := range map[kind]exact.Limiter{fixed: fixedWindow, sliding: slidingWindow} {
		s, err := loads[3].stream(3, testDivisor, 1)
		require.NoError(t, err)
		l, denied := newLedger(k, s.keys), 0
		s.each(func(r *uint32, at moment) {
			used, u := l.used(*r, at)
			now := time.Unix(epoch, int64(at.window)*window+at.elapsed)
			require.Equal(t, oracle.TakeAt(now, strconv.Itoa(int(*r)), 1).Allowed, used < limit)
			if used < limit {
				u.add()
			} else {
				denied++
			}
		})
		assert.Positive(t, denied)
	}
}

func TestInnocentKeysAreNeverDenied(t *testing.T) {
	s, err := loads[3].stream(2, testDivisor, 1)
	require.NoError(t, err)
	for range 2 { // marks of the first time do not matter
		exactly(s, sliding)
		n := 0
		for _, r := range s.requests {
			if r&innocent != 0 {
				n++
				require.Less(t, r&^innocent, uint32(loads[3].keys/testDivisor), "an abuser")
			}
		}
		assert.InEpsilon(t, 2*3*loads[3].keys/testDivisor, n, 0.02)
	}
}

func TestLibraryNeverAdmitsTooMuch(t *testing.T) {
	for _, k := range kinds {
		s, err := loads[3].stream(3, testDivisor, 1)
		require.NoError(t, err)
		l, err := newLibrary(k, 8<<10)
		require.NoError(t, err)
		assert.LessOrEqual(t, l.bits(), 8*8<<10)
		o := judge(s, k, exactly(s, k), l)
		assert.Zero(t, o.over)
		assert.Less(t, o.withheld(), 0.01)
		assert.GreaterOrEqual(t, o.meanError(), 0.0)
	}
}

func TestSeedsDecide(t *testing.T) {
	for _, c := range literature {
		play := func(seed uint64) outcome {
			stream, err := loads[3].stream(2, testDivisor, seed)
			require.NoError(t, err)
			return judge(stream, sliding, exactly(stream, sliding), newCounting(c.build, c.settings[0], sliding, 2<<10))
		}
		once := play(1)
		assert.Equal(t, once, play(1), c.name)
		assert.NotEqual(t, once, play(2), c.name)
	}
}

func TestWindowsTurn(t *testing.T) {
	l := newCounting(newConservative, setting{3}, sliding, 8<<10)
	for n := range uint32(limit) {
		admitted, used := l.take(1, moment{0, 0})
		require.True(t, admitted)
		require.Equal(t, n, used)
	}
	for _, step := range []struct {
		at       moment
		admitted bool
		used     uint32
	}{
		{moment{0, window - 1}, false, 100},
		{moment{1, 0}, false, 100},
		{moment{1, window/100 - 1}, false, 100}, // rounded up
		{moment{1, window / 100}, true, 99},
		{moment{1, window / 2}, true, 51},
		{moment{2, 0}, true, 2},
		{moment{4, 0}, true, 0},
	} {
		admitted, used := l.take(1, step.at)
		assert.Equal(t, step.admitted, admitted, step)
		assert.Equal(t, step.used, used, step)
	}
}

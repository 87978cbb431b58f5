package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// fake is a limiter by a function, that says of itself what it is told to.
type fake struct {
	decide func(at moment, key string, n int) bool
	says   func() sketchlimit.OverCapacity
}

func (f fake) take(at moment, key string, n int) bool { return f.decide(at, key, n) }
func (f fake) memory() int                            { return 1000 }
func (f fake) entries() int                           { return 10 }
func (f fake) spared() sketchlimit.OverCapacity {
	if f.says == nil {
		return sketchlimit.OverCapacity{}
	}
	return f.says()
}

func all(moment, string, int) bool { return true }

// faithful is an exact limiter.
func faithful() func(moment, string, int) bool {
	return (&table{keys: make(map[string]*units), most: 1 << 30}).take
}

// small is an overload of 2 × by keys, with 1 % abusers who ask for three times their
// limit.
var small = row{load: 2, abusers: 0.01, times: 3, start: 30}

// judged returns what comes of fakes.
func judged(t *testing.T, fakes ...fake) []outcome {
	var limiters []limiter
	for _, f := range fakes {
		limiters = append(limiters, f)
	}
	j := newJudge(sketchlimit.SlidingWindow, small.traffic(1./1024), limiters)
	require.NoError(t, j.run(1))
	return j.outcomes()
}

// Every way to be wrong is noticed, and an exact limiter is not wrong.
func TestBrokenLimitersAreNoticed(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	forgetful := &table{keys: make(map[string]*units), most: 1 << 30}
	unjust, punctual := faithful(), faithful()
	outcomes := judged(t,
		fake{decide: faithful()},
		fake{decide: all},
		fake{decide: func(moment, string, int) bool { return false }},
		fake{decide: func(at moment, key string, n int) bool { // forgets a key every now and then
			if random.IntN(100) == 0 {
				delete(forgetful.keys, key)
			}
			return forgetful.take(at, key, n)
		}},
		fake{decide: func(at moment, key string, n int) bool { // denies one request in a thousand
			return random.IntN(1000) > 0 && unjust(at, key, n)
		}},
		fake{decide: func(at moment, key string, n int) bool { // admits too much in the last window alone
			return at.generation == 8 || punctual(at, key, n)
		}},
	)
	exact, open, closed := outcomes[0], outcomes[1], outcomes[2]
	forgets, denies, ends := outcomes[3], outcomes[4], outcomes[5]
	for p := range phases {
		assert.Greater(t, exact.innocents[p], uint64(4000), "phase %d", p)
		assert.Zero(t, exact.denied[p]+open.denied[p]+forgets.denied[p], "phase %d", p)
		assert.Equal(t, closed.innocents[p], closed.denied[p], "phase %d", p)
	}
	assert.InDelta(t, 1e-3, denials([]outcome{denies}, late), 3e-4)
	assert.Equal(t, excess{1, 1, 1}, exact.excess)
	assert.InDelta(t, 3, open.excess.mean, 0.3)
	assert.Greater(t, open.excess.p99, open.excess.mean)
	assert.Greater(t, open.excess.window, open.excess.mean)
	assert.Equal(t, excess{}, closed.excess)
	assert.Greater(t, forgets.excess.mean, 1.2)
	assert.Zero(t, exact.over+closed.over+denies.over)
	for _, o := range []outcome{open, forgets, ends} {
		assert.NotZero(t, o.over)
		assert.Zero(t, o.spared)
	}
	assert.Equal(t, 1000, exact.memory)
	assert.Equal(t, 38, exact.keys)
	assert.InDelta(t, 3.8, exact.abusersPerEntry(), 1e-9)
}

// A limiter may admit too much only while it says so, and one window longer.
func TestSparingIsHeldAgainstWhatIsSaid(t *testing.T) {
	since, exact := begin.Add(3*window), begin.Add(5*window)
	var now time.Time
	sparing := func(from, to time.Time) func(moment, string, int) bool {
		history := make(map[string]*units)
		return func(at moment, key string, n int) bool {
			now = at.time
			if history[key] == nil {
				history[strings.Clone(key)] = &units{}
			}
			if !at.time.Before(from) && at.time.Before(to) {
				history[key].turn(at)
				history[key].current += int16(n)
				return true
			}
			return history[key].take(sketchlimit.SlidingWindow, at, n)
		}
	}
	says := func(units uint64) func() sketchlimit.OverCapacity {
		return func() sketchlimit.OverCapacity {
			switch {
			case now.Before(since):
				return sketchlimit.OverCapacity{}
			case now.Before(exact.Add(-window)):
				return sketchlimit.OverCapacity{Active: true, Since: since, Times: 1, Units: units}
			}
			return sketchlimit.OverCapacity{Since: since, Exact: exact, Times: 1, Units: units}
		}
	}
	outcomes := judged(t,
		fake{sparing(since, exact), says(1e9)},
		fake{sparing(since.Add(-window/2), exact), says(1e9)},
		fake{sparing(since, exact.Add(window)), says(1e9)},
		fake{sparing(since, exact), nil},
		fake{sparing(since, exact), says(5)},
	)
	honest, soon, long, silent, hiding := outcomes[0], outcomes[1], outcomes[2], outcomes[3], outcomes[4]
	assert.Zero(t, honest.over)
	assert.NotZero(t, honest.spared)
	assert.InDelta(t, 1.7, honest.switched, 1e-9)
	assert.InEpsilon(t, 1.7*3906*20+1.9*19*300, honest.requests, 0.01)
	for _, o := range []outcome{soon, long, silent} {
		assert.NotZero(t, o.over)
	}
	for _, o := range outcomes {
		assert.False(t, o.lasting)
	}
	assert.Zero(t, hiding.over)
	assert.Greater(t, hiding.spared, hiding.state.Units)
}

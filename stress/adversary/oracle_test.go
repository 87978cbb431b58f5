package main

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// step is a request of key 0; free is what the exact algorithm has before it.
type step struct {
	at    time.Duration
	n     int64 // that are then granted
	limit int64 // 0: the limiter's
	free  int64
}

func TestOracleExamples(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		config sketchlimit.Config
		limits []int
		steps  []step
	}{
		"a fixed window is whole again when it begins": {
			sketchlimit.Config{Limit: 5, Window: 10 * second, Algorithm: sketchlimit.FixedWindow}, nil, []step{
				{0, 3, 0, 5}, {9 * second, 2, 0, 2}, {10*second - 1, 0, 0, 0}, {10 * second, 5, 0, 5}, {10 * second, 0, 0, 0},
			}},
		"time begins with the first that comes": {
			sketchlimit.Config{Limit: 10, Window: 10 * second}, nil, []step{
				{-1e6 * second, 8, 0, 10}, {-1e6*second + 9*second, 0, 0, 2}, {-2e6 * second, 0, 0, 2}, {0, 0, 0, 10},
			}},
		"a sliding window weighs the one before": {
			sketchlimit.Config{Limit: 100, Window: 60 * second}, nil, []step{
				{30 * second, 80, 0, 100},
				{60 * second, 0, 0, 20},    // at its first instant 80 count in full
				{60*second + 1, 0, 0, 20},  // 80 × (60e9-1) / 60e9 is more than 79
				{75 * second, 10, 0, 40},   // 80 × ¾ = 60
				{90 * second, 0, 0, 50},    // 80 × ½ and 10
				{120*second - 1, 0, 0, 89}, // a part of one unit is one
				{120 * second, 0, 0, 90},
				{180 * second, 0, 0, 100},
			}},
		"sub-windows weigh the oldest alone": {
			sketchlimit.Config{Limit: 10, Window: 30 * second, SubWindows: 3}, nil, []step{
				{0, 4, 0, 10}, {15 * second, 2, 0, 6}, {29 * second, 0, 0, 4},
				{30 * second, 0, 0, 4}, {35 * second, 0, 0, 6}, {40 * second, 0, 0, 8}, {45 * second, 0, 0, 9}, {50 * second, 0, 0, 10},
			}},
		"a time before the latest window is its first instant": {
			sketchlimit.Config{Limit: 10, Window: 10 * second}, nil, []step{
				{5 * second, 8, 0, 10}, {15 * second, 1, 0, 6}, {2 * second, 0, 0, 1}, {9 * second, 1, 0, 1}, {15 * second, 0, 0, 4}, {12 * second, 0, 0, 1},
			}},
		"limits of the requests' own hold units of a window back": {
			sketchlimit.Config{Limit: 10, Window: 10 * second, Algorithm: sketchlimit.FixedWindow}, []int{4}, []step{
				{0, 3, 4, 4}, {0, 0, 4, 1}, {0, 5, 0, 7}, {0, 0, 4, -4}, {0, 0, 0, 2}, {0, 0, 99, 2}, {0, 0, -1, -8},
			}},
		"a bucket of three a second": {
			sketchlimit.Config{Limit: 3, Window: second, Algorithm: sketchlimit.TokenBucket}, nil, []step{
				{0, 1, 0, 3}, {0, 2, 0, 2}, {0, 0, 0, 0},
				{333333333, 0, 0, 0}, {333333334, 1, 0, 1}, // a third of a second is no whole number of ns
				{666666666, 0, 0, 0}, {666666667, 0, 0, 1}, // and is rounded at every request, not added up
				{2 * second, 0, 0, 3},
			}},
		"a bucket with a burst, and a lower limit": {
			sketchlimit.Config{Limit: 100, Burst: 20, Window: 100 * second, Algorithm: sketchlimit.TokenBucket}, []int{10, 1}, []step{
				{0, 1, 10, 2},  // 20 × 10 / 100, and a unit takes 10 s
				{0, 10, 0, 10}, // 10 s of 20 s are taken
				{0, 0, 0, 0}, {0, 0, 10, 0}, {0, 0, 1, 0},
				{19 * second, 0, 1, 0}, {20 * second, 1, 1, 1}, // one at least, which takes 100 s
				{20 * second, 0, 0, -80}, {20 * second, 0, 10, -8}, {119*second + 1, 0, 0, 19},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			start := int64(1_700_000_040) * int64(second) // begins a minute
			o := newOracle(c.config, c.limits)
			for i, s := range c.steps {
				at := start + int64(s.at)
				limit := s.limit
				if limit == 0 {
					limit = int64(c.config.Limit)
				}
				if limit < 0 {
					limit = 0
				}
				require.Equal(t, s.free, o.free(at, 0, limit), "step %d", i)
				if o.see(at); s.n > 0 {
					o.charge(at, 0, s.n, limit)
				}
			}
		})
	}
}

// A bucket takes a time that has stepped back as it is, or as a later one that it has
// seen.
func TestOracleStepsBack(t *testing.T) {
	const second = int64(time.Second)
	o := newOracle(sketchlimit.Config{Limit: 10, Window: 10 * time.Second, Algorithm: sketchlimit.TokenBucket}, nil)
	require.EqualValues(t, int64(math.MinInt64), o.fullAt(0))
	o.charge(100*second, 0, 4, 10)
	require.True(t, o.sure(100*second, 0))
	require.EqualValues(t, 6, o.free(100*second, 0, 10))
	require.False(t, o.sure(98*second, 0))
	require.EqualValues(t, 6, o.free(98*second, 0, 10), "as at 100 s")

	o.charge(50*second, 1, 5, 10) // full at 55 s, or at 105 s
	require.EqualValues(t, 55*second, o.fullAt(1))
	require.EqualValues(t, 10, o.free(100*second, 1, 10), "what it may be at most")
	require.False(t, o.sure(104*second, 1))
	require.True(t, o.sure(105*second, 1))
	o.charge(105*second, 1, 5, 10)
	require.True(t, o.sure(106*second, 1))
	require.EqualValues(t, 110*second, o.fullAt(1))
}

// grants is the exact algorithm once more: it keeps every grant, adds them up from the
// start for every question, and reckons in fractions.
type grants struct {
	config sketchlimit.Config
	length int64
	kept   int
	latest int64
	all    []granted
}

type granted struct {
	generation, elapsed int64
	n, limit            int64
}

func (g *grants) free(at, limit int64) int64 {
	generation, elapsed := g.position(at)
	now := big.NewRat(generation*g.length+elapsed, 1)
	if g.config.Algorithm == sketchlimit.TokenBucket {
		burst := big.NewRat(int64(g.config.Burst), 1)
		if limit < int64(g.config.Limit) {
			burst.Mul(burst, big.NewRat(limit, int64(g.config.Limit)))
			burst.SetInt64(max(1, floor(burst)))
		}
		full := new(big.Rat).Set(now)
		for i, x := range g.all {
			then := big.NewRat(x.generation*g.length+x.elapsed, 1)
			if i == 0 || full.Cmp(then) < 0 {
				full.Set(then)
			}
			full.Add(full, new(big.Rat).Mul(big.NewRat(x.n, 1), big.NewRat(int64(g.config.Window), x.limit)))
		}
		if full.Cmp(now) < 0 {
			full.Set(now)
		}
		full.Sub(full, now)
		full.Mul(full, big.NewRat(limit, int64(g.config.Window)))
		return floor(burst.Sub(burst, full))
	}
	left := big.NewRat(limit, 1)
	for _, x := range g.all {
		switch age := generation - x.generation; {
		case age < 0 || age >= int64(g.kept):
		case age > 0 && age == int64(g.kept)-1:
			weight := big.NewRat(g.length-elapsed, g.length)
			left.Sub(left, weight.Mul(weight, big.NewRat(x.n, 1)))
		default:
			left.Sub(left, big.NewRat(x.n, 1))
		}
	}
	return floor(left)
}

func (g *grants) position(at int64) (generation, elapsed int64) {
	generation = floor(big.NewRat(at, g.length))
	if generation < g.latest {
		return g.latest, 0
	}
	return generation, at - generation*g.length
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// TestOracleByFractions holds the oracle against the one in fractions, step by step.
func TestOracleByFractions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := drawConfig(r, anyAlgorithm(r))
		if c.Burst == 0 {
			c.Burst = c.Limit
		}
		limits := []int{1 + r.IntN(c.Limit), 1 + r.IntN(c.Limit), c.Limit}
		if c.Window > 1<<55 {
			continue // time would end
		}
		start := int64(1.7e18) - r.Int64N(1<<61)
		o := newOracle(c, limits)
		g := &grants{config: c, length: o.length, kept: o.kept, latest: o.latest}
		for now, i := start, 0; i < 40; i++ {
			limit := int64(limits[r.IntN(3)])
			want := g.free(now, limit)
			require.Equal(t, want, o.free(now, 3, limit), "%+v after %+v", c, g.all)
			g.latest, _ = g.position(now)
			o.see(now)
			if want > 0 {
				n := 1 + r.Int64N(want)
				generation, elapsed := g.position(now)
				g.all = append(g.all, granted{generation, elapsed, n, limit})
				o.charge(now, 3, n, limit)
			}
			now += r.Int64N(2*o.length) - o.length/2 // which does not step back for a bucket
			if c.Algorithm == sketchlimit.TokenBucket {
				now += r.Int64N(int64(c.Window))
			}
		}
	}
}

func TestOracleClone(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Limit: 5, Window: time.Second},
		{Limit: 5, Window: time.Second, Algorithm: sketchlimit.TokenBucket},
	} {
		o := newOracle(c, nil)
		o.charge(0, 0, 1, 5)
		other := o.clone()
		o.charge(0, 0, 2, 5)
		require.EqualValues(t, 4, other.free(0, 0, 5))
		require.EqualValues(t, 2, o.free(0, 0, 5))
	}
}

package tests

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// stated is traffic as Config states it: keys that use a share of their burst in the
// time in which a bucket fills, abusers percent of them asking for three times their
// limit.
type stated struct {
	burst, units int
	atOnce       bool
	abusers      int
	rate         float64
}

// bytesOf are the most bytes a planned key with Headroom 2.
var bytesOf = map[stated]float64{
	{1000, 200, true, 1, 1e-4}: 4,
	{10, 5, true, 5, 1e-4}:     9,
	{10, 5, true, 1, 1e-6}:     13,
}

func init() {
	for _, atOnce := range []bool{false, true} {
		bytesOf[stated{1, 1, atOnce, 1, 1e-4}] = 21
		bytesOf[stated{2, 1, atOnce, 1, 1e-4}] = 10
		bytesOf[stated{2, 2, atOnce, 1, 1e-4}] = 21
		for _, burst := range []int{5, 10, 20, 100} {
			bytesOf[stated{burst, burst / 5, atOnce, 1, 1e-4}] = 4
			bytesOf[stated{burst, burst / 2, atOnce, 1, 1e-4}] = 9
			bytesOf[stated{burst, burst, atOnce, 1, 1e-4}] = 20
		}
	}
}

// TestBucketSizes: a limiter made for half as many keys holds its rate, in the bytes
// that are stated, whether these send evenly or all at once.
func TestBucketSizes(t *testing.T) {
	testkit.Computes(t)
	for s, most := range bytesOf {
		keys, seeds := 10_000/max(1, s.units/10), uint64(3)
		if testkit.Long {
			keys, seeds = 100_000/max(1, s.units/10), 10
		}
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			t.Parallel()
			c := sketchlimit.Config{Limit: s.burst, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Keys: 1_000_000,
				UnitsPerKey: float64(s.units), FalseDenialRate: s.rate}
			_, bytes, err := c.Size()
			require.NoError(t, err)
			require.LessOrEqual(t, float64(bytes)/float64(c.Keys), most)
			c.Keys = keys
			light, denied := 0, 0
			for seed := range seeds {
				c.Seed = seed + 1
				n, d := s.play(t, c, 2*keys)
				light, denied = light+n, denied+d
			}
			t.Logf("%.2f bytes a key, %d of %d requests of light keys denied", float64(bytes)/1e6, denied, light)
			require.LessOrEqual(t, uint64(denied), testkit.MostFalseDenials(uint64(light), s.rate))
		})
	}
}

// play sends keys for three windows, the same in each, of which the last counts. It
// returns the requests of light keys, and how many of these were denied.
func (s stated) play(t *testing.T, c sketchlimit.Config, keys int) (light, denied int) {
	type request struct {
		at  int64
		key int32
	}
	l := build(t, c)
	r := rand.New(rand.NewPCG(c.Seed, 1))
	const ms = 1e6 // of which times are multiples, as the default clock tells them: whole ticks
	unit, window := int64(c.Window)/int64(c.Limit), int64(c.Window)
	full, names, requests := make([]int64, keys), make([]string, keys), []request{}
	for i := range keys {
		names[i] = strconv.FormatUint(r.Uint64(), 36)
		phase, n, gap := r.Int64N(window/ms)*ms, s.units, window/int64(s.units)
		switch {
		case i%100 < s.abusers:
			n, gap = 3*s.burst, unit/3
		case s.atOnce:
			gap = 0
		}
		for u := range n {
			requests = append(requests, request{(phase + int64(u)*gap) % window, int32(i)})
		}
	}
	slices.SortFunc(requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	begin := time.Unix(1_700_000_000, 0).UnixNano()
	for w := range int64(3) {
		for _, q := range requests {
			now := begin + w*window + q.at
			ahead := max(0, full[q.key]-now)
			if ahead <= int64(s.burst-1)*unit { // the exact bucket admits it
				full[q.key] = now + ahead + unit
			}
			allowed := l.TakeAt(time.Unix(0, now), names[q.key], 1).Allowed
			if used := (ahead + unit - 1) / unit; w == 2 && 2*used < int64(s.burst) {
				light++
				if !allowed {
					denied++
				}
			}
		}
	}
	return light, denied
}

package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Every limit gets a size, a lower rate never takes less memory, and more keys take more.
func TestEveryLimitHasASize(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("it sizes limiters that 32 bits cannot address")
	}
	for _, a := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}, {Algorithm: sketchlimit.TokenBucket}} {
		for bits := range 32 {
			for _, limit := range []int{1 << bits, 1<<bits + 1, math.MaxInt32} {
				before := 0
				for _, rate := range []float64{0.5, 1e-2, 1e-3, 3e-5, 1e-6, 1e-7, 9e-8, 1e-9, 1e-12} {
					c := a
					c.Limit, c.Window, c.Keys, c.FalseDenialRate = min(limit, math.MaxInt32), time.Minute, 10_000, rate
					_, bytes, err := c.Size()
					require.NoError(t, err)
					require.GreaterOrEqual(t, bytes, before, "%+v", c)
					before = bytes
					c.Keys *= 10
					_, more, err := c.Size()
					require.NoError(t, err)
					require.Greater(t, more, bytes)
				}
			}
		}
	}
}

// Every lowest limit gets a size as well, of which New makes a limiter.
func TestEveryLowestLimitHasASize(t *testing.T) {
	testkit.Computes(t)
	for _, c := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}, {Algorithm: sketchlimit.TokenBucket}, {Algorithm: sketchlimit.TokenBucket, Burst: 3}} {
		for _, c.Limit = range []int{2, 16, 17, 100, 257, 1000, 65_537, 1 << 22} {
			for _, c.LowestLimit = range []int{1, 2, 3, 7, 11, 12, 16, 17, 100, 1000} {
				for _, c.Keys = range []int{1, 1000, 20_000} {
					if c.Window = time.Minute; c.LowestLimit > c.Limit {
						continue
					}
					_, bytes, err := c.Size()
					require.NoError(t, err)
					require.LessOrEqual(t, build(t, c).MemoryBytes(), bytes, "%+v", c)
				}
			}
		}
	}
	// What holds a limit of 5 among limits up to 1000 is made for five units a key, and
	// takes not much more than what holds such keys at a limit of 5 alone.
	_, alone, err := sketchlimit.Config{Limit: 5, Window: time.Minute, Keys: 1e6, UnitsPerKey: 5}.Size()
	require.NoError(t, err)
	_, among, err := sketchlimit.Config{Limit: 1000, LowestLimit: 5, Window: time.Minute, Keys: 1e6}.Size()
	require.NoError(t, err)
	require.Less(t, among, 3*alone/2)
}

// Abusers who come in the midst of a window must not carry light keys to the limit: the
// table of heavy keys has room for them, whatever light keys have read until then.
func TestAbusersWhoComeLate(t *testing.T) {
	keys := 50_000
	if !testkit.Long {
		keys = 2500
	}
	for _, c := range []sketchlimit.Config{
		{Limit: 20}, {Limit: 100}, {Limit: 1000},
		{Limit: 100, Algorithm: sketchlimit.FixedWindow}, {Limit: 1000, Algorithm: sketchlimit.FixedWindow},
	} {
		now := time.Unix(0, 0)
		c.Window, c.Keys, c.Seed, c.Clock = time.Minute, keys, 1, func() time.Time { return now }
		l := build(t, c)
		r := rand.New(rand.NewPCG(1, 2))
		used, denied := make([]int, keys), 0 // of light keys in the window, by what was admitted
		send := func(from, to float64, light, abusive int) {
			all := light + abusive
			for i := range all {
				now = time.Unix(0, int64((from+(to-from)*float64(i)/float64(all))*float64(time.Minute)))
				if r.IntN(all-i) < abusive {
					abusive--
					l.Allow(fmt.Sprint("abuser ", r.IntN(keys/100)))
					continue
				}
				key := r.IntN(keys)
				allowed := l.Allow(fmt.Sprint(key))
				if allowed {
					used[key]++
				} else if 4*used[key] < c.Limit { // with as many in the window before, which fades: below half
					denied++
				}
			}
		}
		send(0, 1, 5*keys, 0)
		clear(used)
		denied = 0
		send(1, 1.5, 5*keys/2, 0)
		send(1.5, 2, 5*keys/2, 3*c.Limit*keys/100)
		require.LessOrEqual(t, denied, 5*keys/100_000, "%v %d: the rate is 1e-5", c.Algorithm, c.Limit)
	}
}

// A limiter made for a lowest limit holds its rate there, and not just at Limit.
func TestLowestLimitIsSizedFor(t *testing.T) {
	keys, probes := 20_000, 100_000
	if !testkit.Long {
		keys, probes = 2500, 10_000
	}
	for _, test := range []struct {
		sketchlimit.Config
		requests int // a key
	}{
		{sketchlimit.Config{Limit: 100, LowestLimit: 10}, 3},
		{sketchlimit.Config{Limit: 100, LowestLimit: 10, Algorithm: sketchlimit.FixedWindow}, 3},
		{sketchlimit.Config{Limit: 1000, LowestLimit: 50}, 3},
		{sketchlimit.Config{Limit: 1000, LowestLimit: 5}, 3},
		{sketchlimit.Config{Limit: 1000, LowestLimit: 1}, 1},
		{sketchlimit.Config{Limit: 100, LowestLimit: 1, Algorithm: sketchlimit.FixedWindow}, 1},
		{sketchlimit.Config{Limit: 100, LowestLimit: 1, Algorithm: sketchlimit.TokenBucket}, 1},
		{sketchlimit.Config{Limit: 100, LowestLimit: 10, SubWindows: 3}, 3},
	} {
		c := test.Config
		now := time.Unix(0, 0)
		c.Window, c.Keys, c.Seed, c.Clock = time.Minute, keys, 1, func() time.Time { return now }
		l := build(t, c)
		denied := 0
		for window := range 2 {
			for range test.requests {
				for key := range keys {
					l.Do(sketchlimit.Request{Key: fmt.Sprint(key), Limit: c.LowestLimit})
				}
			}
			for key := range keys / 100 {
				l.AllowN(fmt.Sprint("abuser ", key), c.Limit)
			}
			for key := range probes {
				if !l.Do(sketchlimit.Request{Time: now, Key: fmt.Sprint("fresh ", window, key), Limit: c.LowestLimit, Peek: true}).Allowed {
					denied++
				}
			}
			now = now.Add(3 * time.Minute / 2)
		}
		require.LessOrEqual(t, denied, 2*probes/100_000, "%v %d under %d: the rate is 1e-5", c.Algorithm, c.LowestLimit, c.Limit)
	}
}

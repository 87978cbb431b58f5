package tests

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/internal/testkit/books"
)

var chargeHistories = flag.Int("charges", 400, "histories of random buckets that are charged")

// chargeable are limiters of all kinds, with room enough for no key to read another's
// units.
var chargeable = map[string]sketchlimit.Config{
	"sliding":       {Limit: 100, Window: time.Minute},
	"fixed":         {Limit: 100, Window: time.Minute, Algorithm: sketchlimit.FixedWindow},
	"sub-windows":   {Limit: 100, Window: time.Minute, SubWindows: 6},
	"bucket":        {Limit: 100, Window: time.Minute, Algorithm: sketchlimit.TokenBucket},
	"small burst":   {Limit: 600, Window: time.Hour, Burst: 7, Algorithm: sketchlimit.TokenBucket},
	"large burst":   {Limit: 7, Window: time.Second, Burst: 100, Algorithm: sketchlimit.TokenBucket},
	"limit 1":       {Limit: 1, Window: time.Second},
	"limit 300e6":   {Limit: 300_000_000, Window: 30 * 24 * time.Hour},
	"bucket 300e6":  {Limit: 300_000_000, Window: 30 * 24 * time.Hour, Algorithm: sketchlimit.TokenBucket},
	"fixed 1<<31-1": {Limit: 1<<31 - 1, Window: 24 * time.Hour, Algorithm: sketchlimit.FixedWindow},
}

// What is charged and what is taken is what rational arithmetic makes of it, whatever
// the clock does.
func TestChargeIsExact(t *testing.T) {
	for name, c := range chargeable {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				c.MemoryBytes, c.Seed = 1<<20, seed+1
				l := build(t, c)
				exact := books.New(c, generation(c))
				random, keys := rand.New(rand.NewPCG(seed, 1)), 4
				if c.Algorithm == sketchlimit.TokenBucket { // of several keys, one gets the last unit a tick late
					keys = 1
				}
				now := time.Unix(1_700_000_000, random.Int64N(1e9))
				for step := range 1000 / testkit.Divisor {
					now = now.Add(jump(random, c.Window))
					at := exact.See(now)
					key := fmt.Sprint(random.IntN(keys))
					n := 1 + random.IntN(c.Limit)
					if random.IntN(4) > 0 {
						n = 1 + random.IntN(c.Limit/20+1)
					}
					free := exact.Free(at, key)
					if random.IntN(2) == 0 {
						over := l.DoCharge(sketchlimit.Request{Key: key, N: n, Time: now, Peek: true})
						require.EqualValues(t, max(0, int64(n)-max(0, free)), over, "seed %d, step %d, peek", seed, step)
						require.Equal(t, over, l.DoCharge(sketchlimit.Request{Key: key, N: n, Time: now}), "seed %d, step %d", seed, step)
						exact.Charge(at, key, int64(n))
						continue
					}
					d := l.TakeAt(now, key, n)
					require.Equal(t, int64(n) <= free, d.Allowed, "seed %d, step %d: %d of %d", seed, step, n, free)
					if d.Allowed {
						exact.Charge(at, key, int64(n))
						continue
					}
					require.EqualValues(t, max(0, free), d.Remaining, "seed %d, step %d", seed, step)
					if d.RetryAfter != sketchlimit.Never && random.IntN(8) == 0 { // whoever waits passes, from a debt as well
						require.Zero(t, l.DoCharge(sketchlimit.Request{Key: key, N: n, Time: now.Add(d.RetryAfter), Peek: true}))
						require.NotZero(t, l.DoCharge(sketchlimit.Request{Key: key, N: n, Time: now.Add(d.RetryAfter - 1), Peek: true}))
					}
				}
			}
		})
	}
}

// jump returns a step of the clock: most times a little of the window, at times many
// windows, at times back.
func jump(random *rand.Rand, window time.Duration) time.Duration {
	switch step := random.Int64N(int64(window)); random.IntN(12) {
	case 0:
		return time.Duration(step)
	case 1:
		return time.Duration(random.IntN(4)) * window
	case 2:
		return -time.Duration(step / 2)
	default:
		return time.Duration(step / 50)
	}
}

// Stats tell what was charged, and how much of it was not free. A cost below 1 is
// nothing.
func TestChargeIsTold(t *testing.T) {
	for name, c := range chargeable {
		if c.Burst > 0 || c.Limit != 100 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c.MemoryBytes = 1 << 20
			l := build(t, c)
			require.Zero(t, l.Charge("a", 60))
			require.Equal(t, 20, l.Charge("a", 60))
			require.Equal(t, 5, l.Charge("a", 5))
			require.Zero(t, l.Charge("b", 0)+l.Charge("b", -3)+l.Charge("c", 100))
			require.False(t, l.Allow("a"))
			require.False(t, l.Allow("c"))
			require.Equal(t, 100, l.Peek("b").Remaining)
			s := l.Stats()
			require.EqualValues(t, []uint64{225, 25, 2}, []uint64{s.Admitted, s.Overdraft, s.Denied})
		})
	}
}

// A client that chooses its cost adds no more to a sum than its limit, or Burst.
func TestStatsCountAtMostTheLimit(t *testing.T) {
	for name, c := range chargeable {
		t.Run(name, func(t *testing.T) {
			if c.Limit == math.MaxInt {
				t.Skip("no cost is above it: 32 bits")
			}
			c.MemoryBytes, c.LowestLimit = 1<<20, (c.Limit+1)/2
			l, most := build(t, c), uint64(cmp.Or(c.Burst, c.Limit))
			for range 3 {
				require.False(t, l.Take("a", math.MaxInt).Allowed)
			}
			require.Equal(t, 3*most, l.Stats().Denied)
			for _, own := range []int{c.LowestLimit, -1} {
				before := l.Stats().Denied
				require.False(t, l.Do(sketchlimit.Request{Key: "a", N: math.MaxInt, Limit: own}).Allowed)
				require.Equal(t, max(1, most*uint64(max(0, own))/uint64(c.Limit)), l.Stats().Denied-before)
			}
			l.Charge("a", math.MaxInt)
			l.Charge("a", math.MaxInt)
			s := l.Stats()
			require.Equal(t, 2*most, s.Admitted)
			require.LessOrEqual(t, s.Overdraft, s.Admitted)
			g, err := sketchlimit.NewGroup(l, build(t, c))
			require.NoError(t, err)
			require.False(t, g.Take("b", math.MaxInt).Allowed)
			require.Equal(t, s.Denied+most, l.Stats().Denied)
		})
	}
}

// A bucket in debt admits nothing until that has flowed back: at most Burst units of it.
func TestDebtOfABucket(t *testing.T) {
	c := sketchlimit.Config{Limit: 10, Window: time.Second, Burst: 20, Algorithm: sketchlimit.TokenBucket, MemoryBytes: 1 << 20}
	for charged, wait := range map[int]time.Duration{20: 100, 21: 200, 30: 1100, 40: 2100, 1000: 2100} {
		l, now := build(t, c), time.Unix(1_700_000_000, 0)
		l.DoCharge(sketchlimit.Request{Key: "a", N: charged, Time: now})
		require.Equal(t, wait*time.Millisecond, l.TakeAt(now, "a", 1).RetryAfter, charged)
	}
}

// Buckets of any limit, burst and window remember their debt, at limits of requests as
// well, and admit what rational arithmetic says and no unit more.
func TestChargeOfAnyBucket(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	power := func(most float64) int { return max(1, int(math.Exp(random.Float64()*math.Log(most)))) }
	for history := range *chargeHistories / testkit.Divisor {
		c := sketchlimit.Config{
			Limit: power(1 << 29), Burst: power(1 << 29), Window: time.Duration(power(1 << 55)), Algorithm: sketchlimit.TokenBucket,
			LowestLimit: 1, MemoryBytes: 32 << 10, Seed: 1,
		}
		l, err := sketchlimit.New(c)
		if err != nil {
			continue // it takes too long to fill
		}
		whole, tier := c, random.IntN(2)*power(float64(c.Limit))
		if tier > 0 && tier < c.Limit {
			whole.Burst = max(1, int(int64(c.Burst)*int64(tier)/int64(c.Limit)))
			whole.Limit = tier
		}
		exact := books.New(whole, generation(c))
		fill := time.Duration(min(float64(c.Window)*max(1, float64(whole.Burst)/float64(whole.Limit)), 1<<58))
		now := time.Unix(1_700_000_000, random.Int64N(1e9))
		for step := range 60 {
			now = now.Add(jump(random, fill))
			if now.Year() > 2100 || now.Year() < 1975 {
				break
			}
			at, n := exact.See(now), 1+random.IntN(power(3*float64(whole.Burst)))
			free := exact.Free(at, "a")
			r := sketchlimit.Request{Key: "a", N: n, Limit: tier, Time: now}
			if random.IntN(2) == 0 {
				require.EqualValues(t, max(0, int64(n)-max(0, free)), l.DoCharge(r), "history %d, step %d: %+v", history, step, c)
				exact.Charge(at, "a", int64(n))
				continue
			}
			d := l.Do(r)
			require.Equal(t, int64(n) <= free, d.Allowed, "history %d, step %d: %d of %d, limit %d of %+v", history, step, n, free, tier, c)
			if d.Allowed {
				exact.Charge(at, "a", int64(n))
			} else if d.RetryAfter < 1<<59 {
				r.Peek, r.Time = true, now.Add(d.RetryAfter)
				require.True(t, l.Do(r).Allowed, "history %d, step %d: after %v", history, step, d.RetryAfter)
			}
		}
		l.Close()
	}
}

// Of limiters that share a limit and tell each other, each counts what any of them is
// charged.
func TestChargesAreShared(t *testing.T) {
	for name, c := range chargeable {
		if c.Algorithm == sketchlimit.TokenBucket || c.Limit > 1<<29 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8 / testkit.Divisor) {
				random := rand.New(rand.NewPCG(seed, 5))
				now := time.Unix(1_700_000_000, random.Int64N(1e9))
				c.MemoryBytes, c.Seed, c.Clock = 128<<10, 1, func() time.Time { return now }
				nodes := []*node{newNode(t, c), newNode(t, c)}
				exact := books.New(c, generation(c))
				full := false // a node remembers what both together need not
				for step := range 300 {
					if now = now.Add(max(0, jump(random, c.Window))); random.IntN(50) == 0 {
						now, full = now.Add(4*c.Window), false
					}
					one, key := random.IntN(2), fmt.Sprint(random.IntN(4))
					at, n := exact.See(now), 1+random.IntN(c.Limit/10+1)
					free := exact.Free(at, key)
					if random.IntN(2) == 0 {
						peeked := nodes[one].DoCharge(sketchlimit.Request{Key: key, N: n, Peek: true})
						over := nodes[one].Charge(key, n)
						require.Equal(t, peeked, over, "seed %d, step %d", seed, step)
						full = full || over > 0
						require.LessOrEqual(t, int(exact.Charge(at, key, int64(n))), over, "seed %d, step %d", seed, step)
					} else if d := nodes[one].Take(key, n); d.Allowed {
						require.LessOrEqual(t, int64(n), free, "seed %d, step %d", seed, step)
						exact.Charge(at, key, int64(n))
					} else {
						require.True(t, full || int64(n) > free, "seed %d, step %d: %d of %d", seed, step, n, free)
					}
					nodes[one].tell(t, nodes[1-one])
				}
			}
		})
	}
}

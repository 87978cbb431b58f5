package tests

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// rational is GCRA in rational arithmetic, without anything of the package's:
//
//	TAT' = max(TAT, now) + n×window/limit, admitted while TAT' − now ≤ burst×window/limit
type rational struct {
	window time.Duration
	tat    map[string]*big.Rat // unix time, ns
}

func newRational(window time.Duration) *rational { return &rational{window, map[string]*big.Rat{}} }

func (g *rational) flows(n, limit int) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(int64(n), int64(limit)), new(big.Rat).SetInt64(int64(g.window)))
}

// paced returns when the n-th of requests comes that come as fast as they may. A bucket
// of one unit is full at the whole nanosecond after it has filled, and keeps nothing of
// that.
func (g *rational) paced(n, limit, burst int) time.Duration {
	if burst == 1 {
		return time.Duration(n) * time.Duration(ceil(g.flows(1, limit)))
	}
	return time.Duration(ceil(g.flows(n, limit)))
}

// ahead returns max(TAT, now) − now.
func (g *rational) ahead(now int64, key string) *big.Rat {
	d := new(big.Rat)
	if tat := g.tat[key]; tat != nil {
		d.Sub(tat, new(big.Rat).SetInt64(now))
	}
	if d.Sign() < 0 {
		d.SetInt64(0)
	}
	return d
}

func (g *rational) take(now int64, key string, n, limit, burst int) sketchlimit.Decision {
	ahead := g.ahead(now, key)
	d := sketchlimit.Decision{Limit: limit, RetryAfter: sketchlimit.Never}
	if n >= 1 && n <= burst {
		over := new(big.Rat).Add(ahead, g.flows(n-burst, limit))
		d.RetryAfter = time.Duration(ceil(over))
		if d.Allowed = over.Sign() <= 0; d.Allowed {
			d.RetryAfter = 0
			g.charge(now, key, n, limit)
			ahead = g.ahead(now, key)
		}
	}
	d.ResetAfter = time.Duration(ceil(ahead))
	d.Remaining = burst - int(ceil(ahead.Quo(ahead, g.flows(1, limit))))
	d.Remaining = max(d.Remaining, 0)
	return d
}

func (g *rational) charge(now int64, key string, n, limit int) {
	g.tat[key] = new(big.Rat).Add(new(big.Rat).SetInt64(now), g.ahead(now, key))
	g.tat[key].Add(g.tat[key], g.flows(n, limit))
}

func ceil(a *big.Rat) int64 {
	q, m := new(big.Int).DivMod(a.Num(), a.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// tierBurst is the burst of a request's own limit, as TakeLimit says.
func tierBurst(limit int, c sketchlimit.Config) int {
	return max(1, int(int64(c.Burst)*int64(limit)/int64(c.Limit)))
}

// smallBuckets are pairs of limit and burst as users state them, for windows of a
// second to a week; under the race detector some of them.
func smallBuckets() (all []sketchlimit.Config) {
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		for _, limit := range []int{1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 30, 60, 100, 128, 600, 997, 1000, 3600, 5000, 10_000} {
			for _, burst := range []int{0, 1, 2, 3, 7, 20, limit + 1, 3 * limit} {
				c := sketchlimit.Config{Limit: limit, LowestLimit: 1, Window: window, Burst: burst, Algorithm: sketchlimit.TokenBucket, MemoryBytes: 12 << 10}
				if c.Burst == 0 {
					c.Burst = limit
				}
				all = append(all, c)
			}
		}
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:len(all)/testkit.Divisor]
}

// moments are times at which a bucket may be asked first: round ones, and any nanosecond.
var moments = []time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_700_000_123, 456_789_000), time.Unix(1_700_000_456, 234_567_891)}

// A bucket of n units passes n of them at once, together or one by one, and not one more
// before it has flowed.
func TestBucketOfNUnitsPassesNAtOnce(t *testing.T) {
	for _, c := range smallBuckets() {
		for i, now := range moments {
			l, key := build(t, c), fmt.Sprint(i)
			units := min(c.Burst, 300)
			if rest := c.Burst - units; rest > 0 {
				require.True(t, l.TakeAt(now, key, rest).Allowed, "%+v", c)
			}
			for n := range units {
				require.True(t, l.TakeAt(now, key, 1).Allowed, "%+v, unit %d at %v", c, n, now.UnixNano())
			}
			d := l.TakeAt(now, key, 1)
			require.False(t, d.Allowed, "%+v", c)
			require.Equal(t, ceil(newRational(c.Window).flows(1, c.Limit)), int64(d.RetryAfter), "%+v at %v", c, now.UnixNano())
			require.False(t, l.TakeAt(now.Add(d.RetryAfter-1), key, 1).Allowed, "%+v", c)
			require.True(t, l.TakeAt(now.Add(d.RetryAfter), key, 1).Allowed, "%+v", c)
			require.True(t, build(t, c).TakeAt(now, key, c.Burst).Allowed, "%+v", c)
		}
	}
}

// So do many keys of one shard in turns, at a time of whole milliseconds, while a
// bucket fills in minutes.
func TestManyBucketsOfNUnitsPassNAtOnce(t *testing.T) {
	for _, c := range smallBuckets() {
		if c.Window > time.Minute {
			continue
		}
		l, now := build(t, c), time.Unix(1_700_000_123, 456_000_000)
		for n := range min(c.Burst, 20) {
			for key := range 4 {
				cost := 1
				if n == 0 {
					cost = c.Burst - min(c.Burst, 20) + 1
				}
				require.True(t, l.TakeAt(now, fmt.Sprint(key), cost).Allowed, "%+v, unit %d of key %d", c, n, key)
			}
		}
	}
}

// The limiter's own clock is at whole ticks, whatever the time is at which it was made:
// all keys of a shard get all their units at once.
func TestBucketsOfARunningClockPassNAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1_234_567)
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 7, Window: time.Hour, Algorithm: sketchlimit.TokenBucket, MemoryBytes: 12 << 10, Seed: 1})
		require.NoError(t, err)
		time.Sleep(98_765_432)
		for n := range 7 {
			for key := range 100 {
				require.True(t, l.Allow(fmt.Sprint(key)), "unit %d of key %d", n, key)
			}
		}
		require.False(t, l.Allow("0"))
		require.NoError(t, l.Close())
	})
}

// Whoever comes at exactly the rate always passes, with a full bucket and with an empty
// one.
func TestBucketPacedAtItsRateAlwaysPasses(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range smallBuckets() {
		rate := newRational(c.Window)
		for i, now := range moments {
			full, empty := fmt.Sprint(i), fmt.Sprint(i, " empty")
			l := build(t, c)
			for n := range 200 {
				at := now.Add(rate.paced(n, c.Limit, 1))
				require.True(t, l.TakeAt(at, full, 1).Allowed, "%+v, request %d from %v", c, n, now.UnixNano())
			}
			l = build(t, c)
			require.True(t, l.TakeAt(now, empty, c.Burst).Allowed)
			for n := range 200 {
				at := now.Add(rate.paced(n+1, c.Limit, c.Burst))
				require.True(t, l.TakeAt(at, empty, 1).Allowed, "%+v, request %d from %v, empty", c, n, now.UnixNano())
			}
		}
	}
}

func TestTiersOfNUnitsPassNAtOnceAndAtTheirRate(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range smallBuckets() {
		rate := newRational(c.Window)
		for _, tier := range []int{1, 2, 3, 7, 11, c.Limit / 3, c.Limit - 1} {
			if tier < 1 || tier > c.Limit {
				continue
			}
			burst := tierBurst(tier, c)
			for i, now := range moments {
				l, key := build(t, c), fmt.Sprint(tier, " ", i)
				units := min(burst, 100)
				if rest := burst - units; rest > 0 {
					require.True(t, l.Do(sketchlimit.Request{Time: now, Key: key, N: rest, Limit: tier}).Allowed)
				}
				for n := range units {
					require.True(t, l.Do(sketchlimit.Request{Time: now, Key: key, Limit: tier}).Allowed, "%+v, tier %d, unit %d at %v", c, tier, n, now.UnixNano())
				}
				for n := range 50 {
					at := now.Add(rate.paced(n+1, tier, burst))
					require.False(t, l.Do(sketchlimit.Request{Time: at.Add(-1), Key: key, Limit: tier}).Allowed)
					require.True(t, l.Do(sketchlimit.Request{Time: at, Key: key, Limit: tier}).Allowed, "%+v, tier %d, request %d from %v", c, tier, n, now.UnixNano())
				}
			}
		}
	}
}

func TestReserveOfNUnitsAtOnceAndAtTheRate(t *testing.T) {
	for _, c := range smallBuckets() {
		rate := newRational(c.Window)
		for i, now := range moments {
			l := build(t, c)
			key, units := fmt.Sprint(i), min(c.Burst, 100)
			if rest := c.Burst - units; rest > 0 {
				_, err := l.Reserve(sketchlimit.Request{Time: now, Key: key, N: rest})
				require.NoError(t, err)
			}
			for n := range units {
				wait, err := l.Reserve(sketchlimit.Request{Time: now, Key: key})
				require.NoError(t, err, "%+v, unit %d", c, n)
				require.Equal(t, ceil(rate.flows(c.Burst-units+n, c.Limit)), int64(wait), "%+v, unit %d", c, n)
			}
			_, err := l.Reserve(sketchlimit.Request{Time: now, Key: key})
			require.ErrorIs(t, err, sketchlimit.ErrQueueFull)
			for n := range 50 {
				_, err := l.Reserve(sketchlimit.Request{Time: now.Add(rate.paced(n+1, c.Limit, c.Burst)), Key: key})
				require.NoError(t, err, "%+v, request %d", c, n)
			}
		}
	}
}

// A key that is alone with its shard is GCRA in every field of every decision, whatever
// limit, window and times are; so are tiers.
func TestBucketAloneIsRationalGCRA(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 / testkit.Divisor {
		c := sketchlimit.Config{Algorithm: sketchlimit.TokenBucket, LowestLimit: 1, Limit: 1 + r.IntN(10_000)>>r.IntN(14), Burst: 1 + r.IntN(10_000)>>r.IntN(14)}
		c.Window = ms + time.Duration(r.Int64N(int64(7*24*time.Hour)>>r.IntN(30)))
		if r.IntN(2) == 0 {
			c.Window = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}[r.IntN(4)]
		}
		tier := 1 + r.IntN(c.Limit)
		if r.IntN(2) == 0 {
			tier = c.Limit
		}
		l, oracle, burst := build(t, c), newRational(c.Window), tierBurst(tier, c)
		if tier == c.Limit {
			burst = c.Burst
		}
		admitted := randomTimes(r, c, tier, 400, func(now time.Time, n int) sketchlimit.Decision {
			want := oracle.take(now.UnixNano(), "k", n, tier, burst)
			got := l.Do(sketchlimit.Request{Time: now, Key: "k", N: n, Limit: tier})
			require.Equal(t, want, got, "%+v, tier %d of %d, %d units at %d", c, tier, burst, n, now.UnixNano())
			return got
		})
		require.Greater(t, admitted, 5)
	}
}

// randomTimes asks for random costs at random times, at the very instants that were told,
// and now and then at an earlier one, but not before the generation's first.
func randomTimes(r *rand.Rand, c sketchlimit.Config, limit, requests int, take func(now time.Time, n int) sketchlimit.Decision) (admitted int) {
	generation := int64(generation(c))
	now, latest, n := int64(1_700_000_000_000_000_000), int64(0), 1
	wait := time.Duration(0)
	burst := tierBurst(limit, c)
	unit := max(1, int64(c.Window)/int64(limit))
	for range requests {
		switch r.IntN(8) {
		case 0: // the same instant
		case 1:
			now -= r.Int64N(2*unit + 1)
		case 2:
			now += r.Int64N(1 << (1 + r.IntN(58)))
		case 3, 4:
			if wait < 1<<57 {
				now += int64(wait)
			}
		default:
			now += r.Int64N(unit*int64(n) + 2)
		}
		if wait == 0 || wait > 1<<57 || r.IntN(2) == 0 {
			n = 1 + r.IntN(burst)>>r.IntN(10)
		}
		if now > 1<<61 {
			now = 1_700_000_000_000_000_000
		}
		latest = max(latest, now-now%generation)
		now = max(now, latest)
		d := take(time.Unix(0, now), n)
		if wait = d.RetryAfter; d.Allowed {
			admitted++
		}
	}
	return admitted
}

// With few cells and many keys, at any limit of a request's own and in any order of
// times: what is admitted passes GCRA in rational arithmetic, and no more is left than
// it leaves.
func TestBucketNeverOverAdmitsByRationalGCRA(t *testing.T) {
	testkit.OneGoroutine(t)
	r := rand.New(rand.NewPCG(7, 8))
	admitted := 0
	for i := range 200 / testkit.Divisor {
		c := randomBucket(r)
		if i%2 == 0 {
			c = sketchlimit.Config{Algorithm: sketchlimit.TokenBucket, LowestLimit: 1, Limit: 1 + r.IntN(20), Burst: 1 + r.IntN(20),
				Window: ms + time.Duration(r.Int64N(int64(time.Hour)))}
		}
		c.Plan = &sketchlimit.Plan{Shards: 1 + i%2, Depth: 8 + i%3, Width: 1 + i%4, CellBits: 32}
		l, oracle := build(t, c), newRational(c.Window)
		admitted += randomTimes(r, c, c.Limit, 2000, func(now time.Time, n int) sketchlimit.Decision {
			key, tier, burst := fmt.Sprint(r.IntN(1+i%7)), c.Limit, c.Burst
			if r.IntN(3) == 0 {
				tier = 1 + r.IntN(c.Limit)
				n, burst = 1+r.IntN(tierBurst(tier, c)), tierBurst(tier, c)
			}
			d := l.Do(sketchlimit.Request{Time: now, Key: key, N: n, Limit: tier})
			if d.Allowed {
				want := oracle.take(now.UnixNano(), key, n, tier, burst)
				require.True(t, want.Allowed, "%+v, tier %d, %d units at %d", c, tier, n, now.UnixNano())
				require.LessOrEqual(t, d.Remaining, want.Remaining, "%+v, tier %d, %d units at %d %v %v, oracle %v", c, tier, n, now.UnixNano(), d, want, oracle.tat)
			} else if retry := l.Do(sketchlimit.Request{Time: now, Key: key, N: n, Peek: true}).RetryAfter; retry > 0 && retry < 1<<57 {
				require.True(t, l.Do(sketchlimit.Request{Time: now.Add(retry), Key: key, N: n, Peek: true}).Allowed, "%+v, %d units in %v", c, n, retry)
				require.False(t, l.Do(sketchlimit.Request{Time: now.Add(retry - 1), Key: key, N: n, Peek: true}).Allowed, "%+v, %d units in %v", c, n, retry)
			}
			return d
		})
	}
	require.Greater(t, admitted, 20_000/testkit.Divisor)
}

package tests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

func TestOverloadRefused(t *testing.T) {
	plan := sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 64, CellBits: 8}
	for text, c := range map[string]sketchlimit.Config{
		"Overload -1, must be Deny or DenyProven":                        {Limit: 100, Overload: -1},
		"Overload 7, must be Deny or DenyProven":                         {Limit: 100, Overload: 7},
		"Overload deny_proven with SubWindows 2, must be at most 1":      {Limit: 100, Overload: sketchlimit.DenyProven, SubWindows: 2},
		"Overload deny_proven with Limit 1, must be 2 … 16383":           {Limit: 1, Overload: sketchlimit.DenyProven},
		"Overload deny_proven with Limit 16384, must be 2 … 16383":       {Limit: 16384, Overload: sketchlimit.DenyProven},
		"Overload deny_proven with Plan.HeavyEntries 0, must be above 0": {Limit: 100, Overload: sketchlimit.DenyProven, Plan: &plan},
		"MaxMemoryBytes 1, must be at least":                             {Limit: 100, Overload: sketchlimit.DenyProven, MaxMemoryBytes: 1},
		"FalseDenialRate 2, must be 1e-12 … below 1":                     {Limit: 100, Overload: sketchlimit.DenyProven, FalseDenialRate: 2},
		"MemoryBytes 100, must be at least":                              {Limit: 2, Overload: sketchlimit.DenyProven, MemoryBytes: 100},
		"Limit 0, must be 1 … 2147483647":                                {Overload: sketchlimit.DenyProven},
	} {
		if c.Window = time.Second; c.Keys == 0 && c.Plan == nil && c.MemoryBytes == 0 {
			c.Keys = 1000
		}
		_, err := sketchlimit.New(c)
		require.ErrorContains(t, err, "sketchlimit: "+text)
		_, _, err = c.Size()
		require.ErrorContains(t, err, text)
	}
	for _, limit := range []int{2, 3, 16, 17, 100, 1024, 16383} {
		for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
			l := build(t, sketchlimit.Config{Limit: limit, Window: time.Second, Algorithm: a, Keys: 1000, Overload: sketchlimit.DenyProven})
			require.NotZero(t, l.Plan().HeavyEntries)
			_, err := l.Share()
			require.ErrorContains(t, err, "Share with Overload deny_proven, must be deny")
		}
	}
	require.Equal(t, "deny", sketchlimit.Deny.String())
	require.Equal(t, "deny_proven", sketchlimit.DenyProven.String())
	require.Equal(t, "Overload(7)", sketchlimit.Overload(7).String())
}

// overloaded is a limiter beside exact counts of what it admits.
type overloaded struct {
	*sketchlimit.Limiter
	t            testing.TB
	config       sketchlimit.Config
	now          *atomic.Int64
	random       *rand.Rand
	used         map[string][2]int64 // in the current generation, and in the one before
	number       int64               // of the current one
	above        map[string]int64    // the most that a key had above the limit
	all          int64               // their sum
	exact        bool                // nothing may be over-admitted now
	overAdmitted int                 // requests that were over-admitted
}

const overloadWindow = 10 * time.Second

func newOverloaded(t testing.TB, c sketchlimit.Config) *overloaded {
	o := &overloaded{t: t, now: new(atomic.Int64), random: rand.New(rand.NewPCG(1, 2)), used: map[string][2]int64{}, above: map[string]int64{}}
	o.now.Store(1e18)
	c.Window, c.Seed, c.Overload = overloadWindow, 1, sketchlimit.DenyProven
	if c.Limit == 0 {
		c.Limit = 100
	}
	if c.Clock == nil {
		c.Clock = func() time.Time { return time.Unix(0, o.now.Load()) }
	}
	o.config, o.number, o.Limiter = c, o.now.Load()/int64(overloadWindow), build(t, c)
	return o
}

// take asks for n units, and holds what is admitted against the exact algorithm, fed
// with what was admitted before.
func (o *overloaded) take(key string, n int) bool {
	now := o.now.Load()
	for number := now / int64(overloadWindow); o.number < number; o.number++ {
		for k, u := range o.used {
			if o.used[k] = [2]int64{0, u[0]}; u[0] == 0 {
				delete(o.used, k)
			}
		}
	}
	d := o.Take(key, n)
	if !d.Allowed {
		return false
	}
	u := o.used[key]
	u[0] += int64(n)
	o.used[key] = u
	weighted := u[0]
	if o.config.Algorithm == sketchlimit.SlidingWindow {
		left := int64(overloadWindow) - now%int64(overloadWindow)
		weighted += (u[1]*left + int64(overloadWindow) - 1) / int64(overloadWindow)
	}
	if above := weighted - int64(o.config.Limit); above > 0 {
		o.overAdmitted++
		require.False(o.t, o.exact && !o.Stats().OverCapacity.Active, "over-admitted while Stats says that it is exact")
		o.all += max(0, above-o.above[key])
		o.above[key] = max(o.above[key], above)
	}
	return true
}

// window sends requests for n units each by so many keys, requests of each on average,
// and of some innocent ones and abusers between, until the window ends. It returns the
// requests of light keys that were denied.
func (o *overloaded) window(keys, requests, n int) (denied int) {
	start := o.now.Load()
	all := keys * requests
	for i := range all {
		o.now.Store(start + int64(i)*int64(overloadWindow)/int64(all))
		o.take(fmt.Sprint("crowd ", o.random.IntN(keys)), n)
		if i%50 == 0 && !o.take(fmt.Sprint("innocent ", (i/50)%(1+all/1000)), 1) {
			denied++
		}
		if i%4 == 0 {
			o.take(fmt.Sprint("abuser ", i/4%8), 1+i/4%3)
		}
	}
	o.now.Store(start + int64(overloadWindow))
	s := o.Stats().OverCapacity
	require.LessOrEqual(o.t, o.all, int64(s.Units), "keys have more above the limit than is accounted for")
	o.exact = s.Times == 0 || !s.Active && !s.Exact.After(time.Unix(0, o.now.Load()))
	return denied
}

// Within the plan nothing changes; beyond it the limiter says that it is over capacity,
// denies no innocent ones, and accounts for each unit above a limit; afterwards it says
// when it is exact again, and is.
func TestSpare(t *testing.T) {
	testkit.Computes(t)
	for name, c := range map[string]sketchlimit.Config{
		"sliding":    {},
		"fixed":      {Algorithm: sketchlimit.FixedWindow},
		"limit 2000": {Limit: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			c.Keys, c.UnitsPerKey = 400, 20
			n := 1
			if c.Limit == 2000 {
				c.UnitsPerKey, n = 400, 20
			}
			requests := int(c.UnitsPerKey) / n
			o := newOverloaded(t, c)
			for range 3 {
				require.Zero(t, o.window(400, requests, n))
				require.Equal(t, sketchlimit.OverCapacity{}, o.Stats().OverCapacity)
				require.Zero(t, o.overAdmitted)
			}
			began := time.Unix(0, o.now.Load())
			denied := 0
			for i := range 4 {
				d := o.window(4000, requests, 3*n)
				if s := o.Stats(); i > 0 {
					denied += d
					require.True(t, s.OverCapacity.Active)
					require.True(t, s.OutsidePlan)
					require.Zero(t, s.OverCapacity.Exact)
				}
			}
			t.Logf("%d requests over-admitted; %d units above limits, %d accounted for", o.overAdmitted, o.all, o.Stats().OverCapacity.Units)
			require.Zero(t, denied, "light keys")
			s := o.Stats().OverCapacity
			require.EqualValues(t, 1, s.Times)
			require.False(t, s.Since.Before(began))
			require.NotZero(t, s.Units)

			for range 8 {
				o.window(400, requests, n)
			}
			require.True(t, o.exact)
			before := o.overAdmitted
			s = o.Stats().OverCapacity
			require.False(t, s.Active)
			require.False(t, s.Exact.IsZero())
			require.EqualValues(t, 1, s.Times)
			for range 3 {
				o.window(400, requests, n)
			}
			require.Equal(t, before, o.overAdmitted)
			require.Equal(t, s, o.Stats().OverCapacity)
		})
	}
}

// At the end of a fixed window more keys would be denied than the limiter may deny, but
// for a moment: hardly anybody is, and within the plan it is never over capacity. So it
// is although one key in fifteen comes to its limit.
func TestPlanHoldsAtTheEndOfAWindow(t *testing.T) {
	testkit.Computes(t)
	const keys, heavy, windows = 15_000, 1000, 4
	o := newOverloaded(t, sketchlimit.Config{Algorithm: sketchlimit.FixedWindow, Keys: keys})
	names := make([]string, keys+heavy)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	const light, all = 20 * keys, 20*keys + 100*heavy
	start := o.now.Load()
	for i := range windows * all {
		o.now.Store(start + int64(i)*int64(overloadWindow)/all)
		if o.random.IntN(all) < light {
			o.take(names[o.random.IntN(keys)], 1)
		} else {
			o.take(names[keys+o.random.IntN(heavy)], 1)
		}
	}
	require.Zero(t, o.Stats().OverCapacity.Times)
}

// Where a limit is a few requests, what keys read tells little of what they have used.
// While new keys are far from being denied the limiter is not over capacity, up to its
// headroom; at twice that it does, before it denies them.
func TestSpareWhereALimitIsFewRequests(t *testing.T) {
	testkit.Computes(t)
	const keys = 5000
	for _, limit := range []int{17, 20, 25} {
		for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
			o := newOverloaded(t, sketchlimit.Config{Limit: limit, Algorithm: algorithm, Keys: keys})
			requests := 2 * limit / 5
			for range 4 {
				o.crowd(keys, requests)
			}
			require.Equal(t, sketchlimit.OverCapacity{}, o.Stats().OverCapacity)
			require.Zero(t, o.overAdmitted)
			denied := 0
			for range 3 {
				denied += o.crowd(keys, 2*requests)
			}
			require.True(t, o.Stats().OverCapacity.Active)
			require.Zero(t, denied, "of 6000")
		}
	}
}

// crowd sends requests by so many keys, requests of each on average, until the window
// ends. Between them new keys ask once. It returns how many of these were denied.
func (o *overloaded) crowd(keys, requests int) (denied int) {
	start, all := o.now.Load(), keys*requests
	for i := range all {
		o.now.Store(start + int64(i)*int64(overloadWindow)/int64(all))
		o.take(fmt.Sprint("crowd ", o.random.IntN(keys)), 1)
		if i%(all/2000) == 0 && !o.take(fmt.Sprint("new ", start, i), 1) {
			denied++
		}
	}
	o.now.Store(start + int64(overloadWindow))
	return denied
}

// In a shard over capacity, a key is denied only for what it has been admitted itself, or
// would have been by the exact algorithm: with dear requests and in vain ones, of keys
// that send all at once, a third of them too much.
func TestSparedKeysAreDeniedForTheirOwnUnits(t *testing.T) {
	testkit.Computes(t)
	const keys = 1000
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		o := newOverloaded(t, sketchlimit.Config{Limit: 100, Algorithm: algorithm, Keys: keys})
		oracle, err := exact.Of(o.config)
		require.NoError(t, err)
		require.Equal(t, 1, o.Plan().Shards)
		owned, denied := map[string][2]int{}, 0 // of each key, in this window and in the one before
		for range 5 {
			start := o.now.Load()
			for i, key := range o.random.Perm(keys) {
				name := fmt.Sprint("key ", key)
				own := owned[name]
				own[0], own[1] = 0, own[0]
				o.now.Store(start + int64(i)*int64(overloadWindow)/keys)
				over := o.Stats().OverCapacity.Active
				before := 0. // what counts of the window before
				if algorithm == sketchlimit.SlidingWindow {
					before = float64(own[1]) * (1 - float64(i)/keys)
				}
				wants := 50
				if key%3 == 0 {
					wants = 200
				}
				for asked := 0; asked < wants; {
					n := 1 + o.random.IntN(30)
					asked += n
					due := oracle.TakeAt(time.Unix(0, o.now.Load()), name, n).Allowed
					admitted := o.take(name, n)
					if !admitted && over {
						denied++
						require.Greater(t, float64(own[0]+n)+before+1, 100., "denied for others' units")
					}
					if admitted || due {
						own[0] += n
					}
				}
				owned[name] = own
			}
			o.now.Store(start + int64(overloadWindow))
		}
		require.True(t, o.Stats().OverCapacity.Active)
		require.Greater(t, denied, 100)
	}
}

// overCapacityState loads a limiter until it is over capacity, and until its shards are
// wide if wide.
func (o *overloaded) overCapacityState(windows int) {
	for range windows {
		o.window(4000, 20, 3)
	}
	require.True(o.t, o.Stats().OverCapacity.Active)
}

// Decisions allocate nothing, also those with which shards are over capacity, become
// wide and narrow again.
func TestSpareAllocatesNothing(t *testing.T) {
	testkit.Computes(t)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		o := newOverloaded(t, sketchlimit.Config{Keys: 400, Algorithm: a})
		keys := make([]string, 4000)
		for k := range keys {
			keys[k] = fmt.Sprint(k)
		}
		load := func(of, n, requests int) { // for ten windows
			i := 0
			require.Less(t, testing.AllocsPerRun(1, func() {
				for range requests {
					o.now.Add(10 * int64(overloadWindow) / int64(requests))
					o.Take(keys[i%of], n)
					o.Allow(keys[i%7])
					o.Peek(keys[i%of])
					i++
				}
			}), 5.) // of the runtime's own
		}
		load(len(keys), 60, 40_000)
		require.True(t, o.Stats().OverCapacity.Active)
		load(400, 1, 40_000)
		require.False(t, o.Stats().OverCapacity.Active)
	}
}

// A limiter that is restored goes on as the one that was saved: it admits the keys,
// says so, and accounts for them.
func TestSpareSnapshots(t *testing.T) {
	testkit.Computes(t)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		for windows := 1; windows <= 3; windows++ {
			o := newOverloaded(t, sketchlimit.Config{Keys: 400, Algorithm: a})
			o.overCapacityState(windows)
			o.now.Add(int64(overloadWindow) / 10)
			for range 2000 {
				o.take(fmt.Sprint("crowd ", o.random.IntN(4000)), 1)
			}
			saved := snapshot(t, o.Limiter)
			restored := build(t, o.config)
			_, err := restored.ReadFrom(bytes.NewReader(saved))
			require.NoError(t, err)
			require.Equal(t, saved, snapshot(t, restored))
			require.Equal(t, o.Stats().OverCapacity, restored.Stats().OverCapacity)
			for i := range 4000 {
				key := fmt.Sprint("crowd ", i)
				require.Equal(t, o.Peek(key), restored.Peek(key))
			}
			require.Equal(t, o.Peek("abuser 1"), restored.Peek("abuser 1"))
			o.Limiter = restored
			for range 3 {
				o.window(4000, 20, 3)
			}
			for range 6 {
				o.window(400, 20, 1)
			}
			require.True(t, o.exact)

			for range min(100, *corruptions) {
				into := build(t, o.config)
				_, err := into.ReadFrom(bytes.NewReader(corrupted(o.random, saved)))
				require.ErrorIs(t, err, sketchlimit.ErrSnapshot)
				require.Equal(t, sketchlimit.OverCapacity{}, into.Stats().OverCapacity)
			}
		}
	}
}

// A limiter that may grow does so first, and denies only proven keys when there is
// nothing larger; it never takes more than it may.
func TestSpareGrows(t *testing.T) {
	testkit.Computes(t)
	o := newOverloaded(t, sketchlimit.Config{Keys: 400, MaxMemoryBytes: 24 << 10})
	least := o.MemoryBytes()
	most, active := 0, false
	for range 8 {
		o.window(4000, 20, 3)
		time.Sleep(5 * time.Millisecond) // it is replaced in the background
		most = max(most, o.MemoryBytes())
		require.LessOrEqual(t, o.MemoryBytes(), o.config.MaxMemoryBytes)
		active = active || o.Stats().OverCapacity.Active
	}
	require.Greater(t, most, least)
	require.True(t, active)
	for range 8 {
		o.window(400, 20, 1)
		time.Sleep(5 * time.Millisecond)
	}
	require.True(t, o.exact)
	t.Logf("%d … %d bytes, %d units above limits, %d accounted for", least, most, o.all, o.Stats().OverCapacity.Units)
}

// A limiter that has grown as far as it may is held together with the one that it has
// replaced, also where either of them alone would deny nobody: 160,000 keys ask for a
// fifth of their limit in a limiter for 20,000.
func TestSpareBesideAPredecessor(t *testing.T) {
	testkit.Computes(t)
	c := sketchlimit.Config{Limit: 100, Keys: 20_000, Window: time.Minute, Seed: 3, Overload: sketchlimit.DenyProven}
	_, bytes, err := c.Size()
	require.NoError(t, err)
	c.MaxMemoryBytes = 3 * bytes
	l := build(t, c)
	random := rand.New(rand.NewPCG(1, 1))
	const requests = 3_200_000
	denied, most := uint64(0), 0
	for i := range requests {
		now := time.Unix(1_000_000_020, int64(i)*int64(time.Minute)/requests)
		if !l.TakeAt(now, strconv.Itoa(random.IntN(160_000)), 1).Allowed {
			denied++
		}
		if i%20_000 == 0 {
			time.Sleep(time.Millisecond) // it grows in the background
			most = max(most, l.MemoryBytes())
		}
	}
	require.LessOrEqual(t, denied, testkit.MostFalseDenials(requests, 1e-4))
	require.True(t, l.Stats().OverCapacity.Active)
	require.Greater(t, most, 2*bytes, "it has grown")
	require.LessOrEqual(t, most, c.MaxMemoryBytes)
}

// An overload may come with dearer requests than there were before: light keys are
// denied no more than in others.
func TestSpareWhenRequestsBecomeDear(t *testing.T) {
	testkit.Computes(t)
	const keys, limit, load = 60_000, 100, 4
	for _, cost := range []int{25, 45} {
		c := sketchlimit.Config{Limit: limit, Keys: keys, Window: time.Minute, Seed: 3, Overload: sketchlimit.DenyProven}
		l := build(t, c)
		oracle, err := exact.Of(c)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, 1))
		begin, denied, innocent := time.Unix(1_000_000_020, 0), [2]uint64{}, [2]uint64{} // in the first tenth, and after it
		window := func(w, of, n, requests int) {
			for i := range requests {
				now := begin.Add(time.Duration((float64(w) + float64(i)/float64(requests)) * float64(time.Minute)))
				key := strconv.Itoa(random.IntN(of))
				exact, d := oracle.TakeAt(now, key, n), l.TakeAt(now, key, n)
				if !exact.Allowed || 2*(exact.Remaining+n) <= limit {
					continue
				}
				phase := min(10*i/requests, 1)
				if innocent[phase]++; !d.Allowed {
					denied[phase]++
				}
			}
		}
		window(0, keys, 1, 20*keys) // half of what the plan is for
		denied, innocent = [2]uint64{}, [2]uint64{}
		window(1, 2*load*keys, cost, 40*load*keys/cost)
		t.Logf("cost %d: %d of %d denied, then %d of %d; %+v", cost, denied[0], innocent[0], denied[1], innocent[1], l.Stats().OverCapacity)
		require.True(t, l.Stats().OverCapacity.Active)
		require.LessOrEqual(t, denied[0], testkit.MostFalseDenials(innocent[0], 1e-3))
		require.LessOrEqual(t, denied[1], testkit.MostFalseDenials(innocent[1], 1e-4))
	}
}

// Goroutines ask while shards are over capacity, become wide and narrow, while others
// read Stats and write snapshots.
func TestSpareAtOnce(t *testing.T) {
	const requests = 10_000 / testkit.Divisor
	for _, c := range []sketchlimit.Config{
		{Keys: 500},
		{Keys: 500, Algorithm: sketchlimit.FixedWindow},
		{Keys: 500, MaxMemoryBytes: 16 << 10},
	} {
		o := newOverloaded(t, c)
		begin, end := sync.WaitGroup{}, make(chan struct{})
		for g := range 8 {
			begin.Go(func() {
				random := rand.New(rand.NewPCG(uint64(g), 9))
				for i := range requests {
					keys := 50
					if i < requests/2 {
						keys = 5000
					}
					o.Take(fmt.Sprint(random.IntN(keys)), 40)
					o.Allow("heavy")
					o.Peek(fmt.Sprint(random.IntN(keys)))
					o.now.Add(int64(overloadWindow) / requests)
				}
			})
		}
		var aside sync.WaitGroup
		aside.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-end:
					return
				default:
				}
				s := o.Stats().OverCapacity
				require.GreaterOrEqual(t, s.Units, last)
				last = s.Units
				restored := build(t, o.config)
				_, err := restored.ReadFrom(bytes.NewReader(snapshot(t, o.Limiter)))
				require.NoError(t, err)
			}
		})
		begin.Wait()
		close(end)
		aside.Wait()
		require.NotZero(t, o.Stats().OverCapacity.Times)
	}
}

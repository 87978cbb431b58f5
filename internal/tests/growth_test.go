package tests

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

func growing(t testing.TB, c sketchlimit.Config) *sketchlimit.Limiter {
	c.Limit, c.Window, c.Seed = 20, time.Second, 1
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	return l
}

// A load that is many times what the limiter was made for denies everybody in one of a
// fixed size; this one grows until it does not, and shrinks when the load has gone.
func TestGrowFollowsTheLoad(t *testing.T) {
	if testing.Short() && !testkit.Race { // its limiter grows in a goroutine
		t.Skip("computes for a second")
	}
	synctest.Test(t, func(t *testing.T) {
		const keys = 60_000 / min(testkit.Divisor, 2)
		c := sketchlimit.Config{MemoryBytes: 16 << 10, MaxMemoryBytes: 8 << 20}
		l := growing(t, c)
		defer l.Close()
		began := l.MemoryBytes()
		require.LessOrEqual(t, began, 20<<10)
		fixed := build(t, sketchlimit.Config{Limit: 20, Window: time.Second, MemoryBytes: c.MemoryBytes, Seed: 1})
		window := func(keys int) (denied, deniedByFixed int) {
			for i := range 4 * keys {
				key := strconv.Itoa(i % keys)
				if !l.Allow(key) {
					denied++
				}
				if !fixed.TakeAt(time.Now(), key, 1).Allowed {
					deniedByFixed++
				}
				if i%(4*keys/100) == 0 {
					time.Sleep(9 * time.Millisecond) // under a second in all
				}
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			synctest.Wait()
			return denied, deniedByFixed
		}
		most := 0
		denied, deniedByFixed := 0, 0
		for range 8 {
			denied, deniedByFixed = window(keys)
			most = max(most, l.MemoryBytes())
			require.LessOrEqual(t, l.MemoryBytes(), c.MaxMemoryBytes)
		}
		require.Zero(t, denied, "after eight windows")
		require.Greater(t, deniedByFixed, keys, "the load is too light to tell")
		require.Greater(t, most, 100<<10)
		require.Less(t, l.Stats().FalseDenialRate, 1e-5)
		require.Zero(t, l.Plan().Width%8)
		for range 40 {
			window(1000)
		}
		require.LessOrEqual(t, l.MemoryBytes(), 2*began, "the load has gone")
		t.Logf("%d bytes, then up to %d", began, most)
	})
}

// A limiter that grows keeps its goal while keys become more, and where they are more
// all at once, is over it in that window and the next at most: by the wall clock, and
// by a Clock of its own. One that is closed, and grows no more, does not do as well.
func TestGrowKeepsItsGoal(t *testing.T) {
	testkit.Computes(t)
	const first, goal, jump = 1000, 1e-5, 5
	for _, tt := range []struct {
		name    string
		windows int
		keys    func(window int) float64
		clock   func() time.Time
		keeps   int // its goal: outside of so many windows from the jump on; -1: not at all
	}{
		{"a tenth more each window", 22, func(w int) float64 { return math.Pow(1.1, float64(w)) }, nil, 0},
		{"half as many more each window", 9, func(w int) float64 { return math.Pow(1.5, float64(w)) }, nil, 0},
		{"five times as many at once", 12, func(w int) float64 { return 1 + 4*float64(w/jump&1) }, nil, 0},
		{"away for five windows, then back", 18, func(w int) float64 {
			if w >= 8 && w < 13 {
				return 0
			}
			return math.Pow(1.3, float64(min(w, 8)))
		}, nil, 0},
		{"ten times as many at once", 9, func(w int) float64 { return 1 + 9*float64(w/jump&1) }, nil, 0},
		{"thirty times as many at once", 9, func(w int) float64 { return 1 + 29*float64(w/jump&1) }, nil, 2},
		{"five times as many at once, by a Clock of its own", 9, func(w int) float64 { return 1 + 4*float64(w/jump&1) }, time.Now, 0},
		{"ten times as many at once, closed", 9, func(w int) float64 { return 1 + 9*float64(w/jump&1) }, nil, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := growing(t, sketchlimit.Config{Keys: first, MaxMemoryBytes: 64 << 20, Clock: tt.clock})
			defer l.Close()
			if tt.keeps < 0 {
				require.NoError(t, l.Close())
			}
			j := judged{l: l, random: rand.New(rand.NewPCG(1, 2))}
			innocent, wrong, atJump, wrongAtJump := 0, 0, 0, 0
			for w := range tt.windows {
				i, d := j.window(int(first * tt.keys(w)))
				if w < jump || w >= jump+tt.keeps {
					innocent, wrong = innocent+i, wrong+d
				} else {
					atJump, wrongAtJump = atJump+i, wrongAtJump+d
				}
				require.Zero(t, j.over)
			}
			t.Logf("%s: %d of %d light requests denied wrongly, and %d of %d at the jump", tt.name, wrong, innocent, wrongAtJump, atJump)
			// Five standard deviations of what is expected, once in 10,000 seeds by
			// chance; this one is fixed.
			most := goal*float64(innocent) + 5*math.Sqrt(goal*float64(innocent))
			require.Equal(t, tt.keeps >= 0, float64(wrong) <= most, "%s: %d of %d", tt.name, wrong, innocent)
		})
	}
}

// judged is a limiter of 20 units a second under a load of five requests a key and
// window, some of it on keys that flood, held against the exact count of what it admits.
type judged struct {
	l                 *sketchlimit.Limiter
	random            *rand.Rand
	current, previous map[int]int
	over              int
}

// window sends the requests of one, and tells how many came from keys that had used less
// than half of the limit, and how many of these were denied wrongly.
func (j *judged) window(keys int) (innocent, wrong int) {
	const limit, steps = 20, 50
	j.current, j.previous = map[int]int{}, j.current
	for step := range steps {
		now := time.Now()
		left := steps - step // of the window
		for range 5 * keys / steps {
			key := j.random.IntN(keys)
			if j.random.IntN(100) == 0 {
				key = -1 - j.random.IntN(1+keys/800)
			}
			used := j.current[key]*steps + j.previous[key]*left
			exact := used+steps <= limit*steps
			admitted := j.l.TakeAt(now, strconv.Itoa(key), 1).Allowed
			if admitted {
				j.current[key]++
				if !exact {
					j.over++
				}
			}
			if used < limit*steps/2 {
				innocent++
				if exact && !admitted {
					wrong++
				}
			}
		}
		time.Sleep(time.Second / steps)
		synctest.Wait()
	}
	return innocent, wrong
}

// What the exact algorithm would deny is denied across any number of replacements, and
// every admitted unit is in Stats.
func TestGrowNeverOverAdmits(t *testing.T) {
	testkit.Computes(t)
	for name, algorithm := range map[string]sketchlimit.Algorithm{"sliding": sketchlimit.SlidingWindow, "fixed": sketchlimit.FixedWindow} {
		synctest.Test(t, func(t *testing.T) {
			l := growing(t, sketchlimit.Config{Algorithm: algorithm, MemoryBytes: 6 << 10, MaxMemoryBytes: 4 << 20})
			defer l.Close()
			var oracle exact.Limiter
			var err error
			if oracle, err = exact.NewSlidingWindow(20, time.Second); algorithm == sketchlimit.FixedWindow {
				oracle, err = exact.NewFixedWindow(20, time.Second)
			}
			require.NoError(t, err)
			r := rand.New(rand.NewPCG(1, 2))
			shards, changes, admitted, over := 0, 0, uint64(0), 0
			for window := range 40 {
				keys := 100
				if window%20 < 8 {
					keys = 80_000
				}
				for i := range 100_000 {
					key, n := strconv.Itoa(r.IntN(keys)), 1+r.IntN(3)
					if i%4 == 0 { // hot keys across all sizes
						key = strconv.Itoa(r.IntN(20))
					}
					now := time.Now()
					if l.TakeAt(now, key, n).Allowed {
						admitted += uint64(n)
						if !oracle.PeekAt(now, key, n).Allowed {
							over++
						}
						oracle.Charge(now, key, n)
					}
					if i%1000 == 0 {
						time.Sleep(10 * time.Millisecond)
						synctest.Wait()
					}
				}
				if n := l.Plan().Shards; n != shards {
					shards, changes = n, changes+1
				}
			}
			require.Zero(t, over, name)
			require.Greater(t, changes, 2, "%s: it has hardly changed its size", name)
			require.Equal(t, admitted, l.Stats().Admitted, name)
		})
	}
}

// Replacements in the midst of decisions on all cores: no key is admitted more than its
// limit in a generation. Times are the test's own, so that generations are known.
func TestGrowNeverOverAdmitsUnderConcurrency(t *testing.T) {
	l := growing(t, sketchlimit.Config{MemoryBytes: 8 << 10, MaxMemoryBytes: 2 << 20})
	defer l.Close()
	start := time.Now().Add(time.Hour).Truncate(time.Second)
	sizes := map[int]bool{l.Plan().Shards: true}
	// It grows in the background, for which a busy machine may take any number of
	// windows.
	for window := 0; window < 60/testkit.Divisor || len(sizes) < 2 && window < 600; window++ {
		now := start.Add(time.Duration(window) * time.Second)
		var mu sync.Mutex
		admitted := map[string]int{}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(window), uint64(g)))
				mine := map[string]int{}
				for i := range 10_000 {
					key := strconv.Itoa(r.IntN(50))
					if i%2 == 0 && window%12 < 6 {
						key = strconv.Itoa(r.IntN(1 << 20))
					}
					if n := 1 + r.IntN(2); l.TakeAt(now, key, n).Allowed {
						mine[key] += n
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for key, n := range mine {
					admitted[key] += n
				}
			})
		}
		wg.Wait()
		for key, n := range admitted {
			require.LessOrEqual(t, n, 20, "window %d, key %s", window, key)
		}
		sizes[l.Plan().Shards] = true
	}
	require.Greater(t, len(sizes), 1, "it never changed its size")
}

func TestGrowIsConfigured(t *testing.T) {
	for _, tt := range []struct {
		c    sketchlimit.Config
		want string
	}{
		{sketchlimit.Config{MemoryBytes: 1 << 20, MaxMemoryBytes: -1}, "sketchlimit: MaxMemoryBytes -1, must be at least 0"},
		{sketchlimit.Config{MemoryBytes: 1 << 20, FalseDenialRate: 1e-3}, "sketchlimit: FalseDenialRate 0.001, goes with Keys alone, or with MaxMemoryBytes"},
	} {
		tt.c.Limit, tt.c.Window = 20, time.Second
		_, err := sketchlimit.New(tt.c)
		require.EqualError(t, err, tt.want)
	}
	_, err := sketchlimit.New(sketchlimit.Config{Limit: 20, Window: time.Second, MemoryBytes: 1 << 20, MaxMemoryBytes: 1 << 19})
	require.ErrorContains(t, err, "sketchlimit: MaxMemoryBytes 524288, must be at least 10")
	l := growing(t, sketchlimit.Config{MemoryBytes: 1 << 20, MaxMemoryBytes: 2 << 20, FalseDenialRate: 1e-3})
	require.NoError(t, l.Close())
}

// MemoryBytes is what the heap shows while two sizes are kept and after.
func TestGrowStatesItsMemory(t *testing.T) {
	testkit.Computes(t)
	synctest.Test(t, func(t *testing.T) {
		const other = 16 << 10 // what goroutines take, and tests before this one leave or give back
		before := testkit.Heap()
		l := growing(t, sketchlimit.Config{MemoryBytes: 64 << 10, MaxMemoryBytes: 64 << 20})
		defer l.Close()
		require.InDelta(t, testkit.Heap()-before, l.MemoryBytes(), other)
		sizes := []int{l.MemoryBytes()}
		for range 4 {
			for i := range 800_000 {
				l.TakeAt(time.Now(), string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), 1)
				if i%27_000 == 0 {
					time.Sleep(30 * time.Millisecond)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			require.InDelta(t, testkit.Heap()-before, l.MemoryBytes(), other)
			sizes = append(sizes, l.MemoryBytes())
		}
		require.Greater(t, sizes[len(sizes)-1], 128<<10, "%v", sizes)
		runtime.KeepAlive(l)
	})
}

// A growing limiter that nobody refers to any more ends its goroutines.
func TestGrowIsCollected(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		growing(t, sketchlimit.Config{MemoryBytes: 16 << 10, MaxMemoryBytes: 1 << 20})
	}
	for range 10_000 {
		if runtime.GC(); runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// owner is a caller whose clock knows its limiter.
type owner struct {
	limiter *sketchlimit.Limiter
	at      time.Time
	ballast []byte
}

func (o *owner) now() time.Time { return o.at }

// A limiter whose Clock leads back to it is collected all the same, closed or not.
func TestLimiterOfItsOwnersClockIsCollected(t *testing.T) {
	const each = 1 << 20
	before := testkit.Heap()
	for i := range 100 {
		o := &owner{at: time.Unix(1000, 0), ballast: make([]byte, each)}
		var err error
		o.limiter, err = sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Second, MemoryBytes: 8 << 10, Clock: o.now,
			MaxMemoryBytes: 1 << 20})
		require.NoError(t, err)
		require.True(t, o.limiter.Allow("k"))
		if i%2 == 0 {
			require.NoError(t, o.limiter.Close())
		}
	}
	require.Less(t, float64(testkit.Heap()-before), 20.*each)
}

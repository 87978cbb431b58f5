package sketchlimit_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/machine"
)

// What the machine has no memory for is refused, before the process is killed for it.
// Size is of no machine.
func TestNewFitsIntoTheMachine(t *testing.T) {
	most, of, ok := machine.Memory()
	c := sketchlimit.Config{Limit: 5, Window: time.Minute, Keys: 1 << 30}
	_, bytes, err := c.Size()
	if !ok || err != nil || uint64(bytes) <= most {
		t.Skip("the machine does not say, or has enough")
	}
	_, err = sketchlimit.New(c)
	require.EqualError(t, err, fmt.Sprintf("sketchlimit: Keys 1073741824, takes %d bytes, must be at most %d: %s", bytes, most, of))
	plan, _, err := c.Size()
	require.NoError(t, err)
	_, err = sketchlimit.New(sketchlimit.Config{Limit: 5, Window: time.Minute, Plan: &plan})
	require.EqualError(t, err, fmt.Sprintf("sketchlimit: Plan, takes %d bytes, must be at most %d: %s", bytes, most, of))
	_, err = sketchlimit.New(sketchlimit.Config{Limit: 5, Window: time.Minute, MemoryBytes: int(2 * most)})
	require.ErrorContains(t, err, fmt.Sprintf("sketchlimit: MemoryBytes %d, takes ", 2*most))
}

func TestBadConfigurationsAreNamed(t *testing.T) {
	good := sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: 1 << 20}
	mostMemory := "140737488355328"
	if strconv.IntSize == 32 {
		mostMemory = "1073741824"
	}
	plan := sketchlimit.Plan{Shards: 4, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 8}
	with := func(change func(p *sketchlimit.Plan)) func(*sketchlimit.Config) {
		return func(c *sketchlimit.Config) {
			p := plan
			change(&p)
			c.MemoryBytes, c.Plan = 0, &p
		}
	}
	for _, c := range []struct {
		change func(c *sketchlimit.Config)
		want   string
	}{
		{func(c *sketchlimit.Config) { c.Limit = 0 }, "Limit 0, must be 1 … 2147483647"},
		{func(c *sketchlimit.Config) { c.Limit = -5 }, "Limit -5, must be 1 … 2147483647"},
		{func(c *sketchlimit.Config) { c.Window = 0 }, "Window 0s, must be 1ms … 640511h56m49.213693952s"},
		{func(c *sketchlimit.Config) { c.Window = 60 },
			"Window 60ns, must be 1ms … 640511h56m49.213693952s: a number without a unit is nanoseconds, was 60 * time.Second meant?"},
		{func(c *sketchlimit.Config) { c.Window = -time.Second }, "Window -1s, must be 1ms … 640511h56m49.213693952s"},
		{func(c *sketchlimit.Config) { c.Window = math.MaxInt64 }, "Window 2562047h47m16.854775807s, must be 1ms … 640511h56m49.213693952s"},
		{func(c *sketchlimit.Config) { c.Algorithm = 7 }, "Algorithm 7, must be SlidingWindow, FixedWindow or TokenBucket"},
		{func(c *sketchlimit.Config) { c.Algorithm = -1 }, "Algorithm -1, must be SlidingWindow, FixedWindow or TokenBucket"},
		{func(c *sketchlimit.Config) { c.Burst = 5 }, "Burst 5, goes with TokenBucket only"},
		{func(c *sketchlimit.Config) { c.Burst = -5; c.Algorithm = sketchlimit.TokenBucket }, "Burst -5, must be 0 … 2147483647"},
		{func(c *sketchlimit.Config) { c.SubWindows = 2; c.Algorithm = sketchlimit.TokenBucket }, "SubWindows 2, goes with SlidingWindow only"},
		{func(c *sketchlimit.Config) { c.Algorithm, c.Burst, c.Window = sketchlimit.TokenBucket, 101, 1<<61 },
			"Burst 101, must fill within 640511h56m49.213693952s at 100 per 640511h56m49.213693952s"},
		{func(c *sketchlimit.Config) {
			c.Algorithm, c.Burst, c.Limit, c.Window = sketchlimit.TokenBucket, math.MaxInt32, 1, 1<<61
		},
			"Burst 2147483647, must fill within 640511h56m49.213693952s at 1 per 640511h56m49.213693952s"},
		{func(c *sketchlimit.Config) { c.SubWindows = -1 }, "SubWindows -1, must be at least 0"},
		{func(c *sketchlimit.Config) { c.SubWindows = 2; c.Algorithm = sketchlimit.FixedWindow }, "SubWindows 2, goes with SlidingWindow only"},
		{func(c *sketchlimit.Config) { c.SubWindows = 7 }, "SubWindows 7, must cut Window 1m0s into whole nanoseconds"},
		{func(c *sketchlimit.Config) { c.SubWindows = 120_000 }, "SubWindows 120000, must leave at least 1ms each of Window 1m0s"},
		{func(c *sketchlimit.Config) { c.MemoryBytes = 0 }, "one of Keys, MemoryBytes and Plan must be set: mostly Keys, the distinct keys expected in one Window"},
		{func(c *sketchlimit.Config) { c.Keys = -1 }, "Keys -1, must be 0 … 2147483647"},
		{func(c *sketchlimit.Config) { c.MemoryBytes = -1 }, "MemoryBytes -1, must be 0 … " + mostMemory},
		{func(c *sketchlimit.Config) { c.FalseDenialRate = 1e-5 }, "FalseDenialRate 1e-05, goes with Keys alone, or with MaxMemoryBytes"},
		{func(c *sketchlimit.Config) { c.FalseDenialRate = math.NaN() }, "FalseDenialRate NaN, must be 1e-12 … below 1"},
		{func(c *sketchlimit.Config) { c.FalseDenialRate = -1 }, "FalseDenialRate -1, must be 1e-12 … below 1"},
		{func(c *sketchlimit.Config) { c.UnitsPerKey = -1 }, "UnitsPerKey -1, must be 0 … 2147483647"},
		{func(c *sketchlimit.Config) { c.UnitsPerKey = math.NaN() }, "UnitsPerKey NaN, must be 0 … 2147483647"},
		{func(c *sketchlimit.Config) { c.UnitsPerKey = 5 }, "UnitsPerKey 5, goes with Keys alone, or with MaxMemoryBytes"},
		{func(c *sketchlimit.Config) { c.Headroom = 0.5 }, "Headroom 0.5, must be 1 … 1000"},
		{func(c *sketchlimit.Config) { c.Headroom = math.Inf(1) }, "Headroom +Inf, must be 1 … 1000"},
		{func(c *sketchlimit.Config) { c.Headroom = 3 }, "Headroom 3, goes with Keys alone, or with MaxMemoryBytes"},
		{func(c *sketchlimit.Config) { c.FalseDenialRate = 1 }, "FalseDenialRate 1, must be 1e-12 … below 1"},
		{func(c *sketchlimit.Config) {
			c.Limit, c.SubWindows, c.Keys, c.MemoryBytes, c.FalseDenialRate = 5, 10_000, math.MaxInt32, 0, 1e-12
		},
			"Keys 2147483647 at FalseDenialRate 1e-12 needs 2.52e+16 bytes, must be at most " + mostMemory},
		{func(c *sketchlimit.Config) { c.Plan = &plan }, "MemoryBytes 1048576 with a Plan, only one of them may be set"},
		{func(c *sketchlimit.Config) { c.Plan, c.MemoryBytes, c.Keys = &plan, 0, 5 }, "Keys 5 with a Plan, only one of them may be set"},
		{with(func(p *sketchlimit.Plan) { p.Shards = 0 }), "Plan.Shards 0, must be 1 … 16777216"},
		{with(func(p *sketchlimit.Plan) { p.BloomBytes = 100 }), "Plan.BloomBytes 100, must be a multiple of 64"},
		{with(func(p *sketchlimit.Plan) { p.BloomProbes = 0 }), "Plan.BloomProbes 0, must be 1 … 28"},
		{with(func(p *sketchlimit.Plan) { p.HeavyEntries = 24 }), "Plan.HeavyEntries 24, must be a multiple of 16"},
		{with(func(p *sketchlimit.Plan) { p.HeavyEntries = 16 }), "Plan.PromoteAt 0, must be at least 1"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.HeavyEntries = 16 })(c)
			c.SubWindows = 2
		}, "Plan.HeavyEntries 16, must be 0 for 2 SubWindows"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.HeavyEntries = 16; p.CellBits = 32 })(c)
			c.Limit = 1 << 22
		}, "Plan.HeavyEntries 16, must be 0 for Limit 4194304"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.Shards = 0 })(c)
			c.Algorithm = sketchlimit.TokenBucket
		},
			"Plan.Shards 0, must be 1 … 16777216"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) {})(c)
			c.Algorithm = sketchlimit.TokenBucket
		},
			"Plan.BloomBytes 1024, must be 0 for a TokenBucket"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.BloomBytes, p.HeavyEntries = 0, 16 })(c)
			c.Algorithm = sketchlimit.TokenBucket
		}, "Plan.HeavyEntries 16, must be 0 for a TokenBucket"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.BloomBytes = 0 })(c)
			c.Algorithm = sketchlimit.TokenBucket
		}, "Plan.CellBits 8, must be 32 for a TokenBucket"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.BloomBytes, p.CellBits, p.Depth = 0, 32, 0 })(c)
			c.Algorithm = sketchlimit.TokenBucket
		}, "Plan.Depth 0, must be one of [6 8 9 10] for a TokenBucket"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.BloomBytes, p.CellBits, p.Depth, p.Width = 0, 32, 8, 0 })(c)
			c.Algorithm = sketchlimit.TokenBucket
		}, "Plan.Width 0, must be 1 … 2147483647 for a TokenBucket"},
		{func(c *sketchlimit.Config) {
			with(func(p *sketchlimit.Plan) { p.CellBits = 4 })(c)
			c.Limit = 124
		}, "Plan.CellBits 4, must be at least 8 for Limit 124"},
		{with(func(p *sketchlimit.Plan) { p.CellBits = 12 }), "Plan: cms: cells of 12 bits, must be 4, 8, 16 or 32"},
		{with(func(p *sketchlimit.Plan) { p.Depth = 0 }), "Plan: cms: depth 0, must be 1 … 32"},
		{with(func(p *sketchlimit.Plan) { p.Width = 0 }), "Plan: cms: width 0, must be a multiple of 8, 8 … 536870912"},
		{with(func(p *sketchlimit.Plan) { p.Width, p.Shards = 1<<29, 1<<24 }), "Plan of 7.21e+16 bytes, must be at most " + mostMemory},
	} {
		config := good
		c.change(&config)
		l, err := sketchlimit.New(config)
		require.EqualError(t, err, "sketchlimit: "+c.want)
		require.Nil(t, l)
	}
	// Such a rate would take gigabytes for few keys, and nobody could measure it.
	_, err := sketchlimit.New(sketchlimit.Config{Limit: 182, Window: time.Second, Keys: 1932, FalseDenialRate: 1e-300})
	require.EqualError(t, err, "sketchlimit: FalseDenialRate 1e-300, must be 1e-12 … below 1")
}

// The error for too little memory names an amount that is enough.
func TestTooLittleMemoryTellsTheLeast(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Limit: 100}, {Limit: 1}, {Limit: 100, Algorithm: sketchlimit.FixedWindow}, {Limit: 100, SubWindows: 60},
		{Limit: 100, Algorithm: sketchlimit.TokenBucket},
	} {
		c.Window, c.MemoryBytes = time.Minute, 100
		_, err := sketchlimit.New(c)
		require.ErrorContains(t, err, "sketchlimit: MemoryBytes 100, must be at least ")
		least := 0
		for c.MemoryBytes = 100; ; c.MemoryBytes++ {
			if _, err := sketchlimit.New(c); err == nil {
				least = c.MemoryBytes
				break
			}
		}
		require.ErrorContains(t, err, "must be at least "+strconv.Itoa(least)+" to hold one shard")
		l := build(t, c)
		require.True(t, l.Allow("k"))
		require.LessOrEqual(t, l.MemoryBytes(), least)
	}
}

func TestPlanIsTaken(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Limit: 100, Plan: &sketchlimit.Plan{Shards: 3, BloomBytes: 128, BloomProbes: 5, Depth: 7, Width: 36, CellBits: 16}},
		{Limit: 100, Plan: &sketchlimit.Plan{Shards: 3, Depth: 9, Width: 36, CellBits: 32}, Algorithm: sketchlimit.TokenBucket, Burst: 7},
		{Limit: 1, Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 1}},
	} {
		c.Window = time.Minute
		want := *c.Plan
		want.Limit, want.Algorithm, want.Burst, want.FalseDenialRate = c.Limit, c.Algorithm, c.Burst, 1e-5
		got := build(t, c).Plan()
		require.Equal(t, want, got)
		c.Plan = &got
		require.Equal(t, want, build(t, c).Plan(), "a limiter's plan makes the same limiter")
	}
}

func TestAPlanForSomethingElseIsRefused(t *testing.T) {
	base := sketchlimit.Config{Limit: 100, LowestLimit: 20, Window: time.Minute, Keys: 1000}
	plan, _, err := base.Size()
	require.NoError(t, err)
	base.Keys, base.Plan = 0, &plan
	build(t, base)
	same := base
	same.Window = time.Hour // of which the dimensions know nothing
	build(t, same)
	for want, change := range map[string]func(*sketchlimit.Config){
		"Plan.Limit 100, must be the Config's, 99":            func(c *sketchlimit.Config) { c.Limit = 99 },
		"Plan.LowestLimit 20, must be the Config's, 100":      func(c *sketchlimit.Config) { c.LowestLimit = 0 },
		"Plan.Algorithm sliding, must be the Config's, fixed": func(c *sketchlimit.Config) { c.Algorithm = sketchlimit.FixedWindow },
		"Plan.SubWindows 1, must be the Config's, 4":          func(c *sketchlimit.Config) { c.SubWindows = 4 },
	} {
		c := base
		change(&c)
		_, err := sketchlimit.New(c)
		require.EqualError(t, err, "sketchlimit: "+want)
	}
	bucket := sketchlimit.Config{Limit: 100, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Keys: 1000}
	plan, _, err = bucket.Size()
	require.NoError(t, err)
	bucket.Keys, bucket.Plan, bucket.Burst = 0, &plan, 100
	build(t, bucket) // which is the default
	bucket.Burst = 10
	_, err = sketchlimit.New(bucket)
	require.EqualError(t, err, "sketchlimit: Plan.Burst 100, must be the Config's, 10")
}

// What one request may have to clear, its whole shard after two windows without one, does
// not grow with the limiter.
func TestAShardDoesNotGrowWithTheLimiter(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("it takes more than there is on machines of 32 bits")
	}
	for _, limit := range []int{1, 5, 100, 1000, 1e6} {
		for memory := 1 << 16; memory <= 1<<30; memory *= 4 {
			p := build(t, sketchlimit.Config{Limit: limit, Window: time.Minute, MemoryBytes: memory}).Plan()
			shard := 2*(p.BloomBytes+p.Depth*p.Width*p.CellBits/8) + 8*p.HeavyEntries
			require.LessOrEqual(t, shard, 32<<10, "limit %d, %d bytes", limit, memory)
			if memory > 1<<20 {
				require.InDelta(t, 16<<10, shard, 512, "limit %d, %d bytes", limit, memory)
			}
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	require.Equal(t, "sliding", sketchlimit.SlidingWindow.String())
	require.Equal(t, "fixed", sketchlimit.FixedWindow.String())
	require.Equal(t, "bucket", sketchlimit.TokenBucket.String())
	require.Equal(t, "Algorithm(9)", sketchlimit.Algorithm(9).String())
}

func TestWindow(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Window: time.Minute},
		{Window: time.Minute, SubWindows: 6},
		{Window: 1500 * time.Millisecond, Algorithm: sketchlimit.FixedWindow},
		{Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Burst: 3},
	} {
		c.Limit = 10
		require.Equal(t, c.Window, build(t, c).Window())
	}
}

// What a limiter takes rises with the units that keys use, and with headroom; what is
// not stated is a fifth of the limit, and twice the traffic.
func TestSizesOfUnitsAndHeadroom(t *testing.T) {
	size := func(c sketchlimit.Config) (sketchlimit.Plan, float64) {
		c.Window, c.Keys = time.Minute, 100_000
		plan, bytes, err := c.Size()
		require.NoError(t, err)
		return plan, float64(bytes) / float64(c.Keys)
	}
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		for _, limit := range []int{100, 1000, 100_000} {
			c := sketchlimit.Config{Limit: limit, Algorithm: a}
			plan, usual := size(c)
			require.GreaterOrEqual(t, plan.PromoteAt, limit/7, "one request of many units must not make a key heavy")
			c.UnitsPerKey = float64(limit) / 5
			_, stated := size(c)
			require.Equal(t, usual, stated)
			c.UnitsPerKey *= 2
			_, twice := size(c)
			require.InEpsilon(t, 2*usual, twice, 0.1)
			c.UnitsPerKey = 5
			_, few := size(c)
			require.Less(t, few, usual/2)
			c.UnitsPerKey, c.Headroom = 0, 6
			_, thrice := size(c)
			require.InEpsilon(t, 3*usual, thrice, 0.1)
		}
	}
	c := sketchlimit.Config{Limit: 10, Algorithm: sketchlimit.TokenBucket}
	_, usual := size(c)
	c.Headroom = 4
	_, twice := size(c)
	require.InEpsilon(t, 2*usual, twice, 0.1)
}

// An audit that is asked for is there, or its field is refused with what would do.
func TestAuditBytes(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Limit: 100, Keys: 1000},
		{Limit: 100, Keys: 1000, Algorithm: sketchlimit.FixedWindow},
		{Limit: 100, Keys: 1000, Algorithm: sketchlimit.TokenBucket},
		{Limit: 100, Keys: 1000, SubWindows: 60},
		{Limit: 100, MemoryBytes: 200 << 10, SubWindows: 60},
	} {
		c.Window, c.AuditBytes = time.Minute, 1
		_, _, err := c.Size()
		require.ErrorContains(t, err, "sketchlimit: AuditBytes 1, must be -1, 0 or at least ")
		_, err = fmt.Sscanf(err.Error(), "sketchlimit: AuditBytes 1, must be -1, 0 or at least %d", &c.AuditBytes)
		require.NoError(t, err)
		l := build(t, c)
		require.Equal(t, 1., l.Stats().Audit.Share)
		_, bytes, err := c.Size()
		require.NoError(t, err)
		require.Equal(t, bytes, l.MemoryBytes())
		c.AuditBytes = -2
		_, _, err = c.Size()
		require.ErrorContains(t, err, "sketchlimit: AuditBytes -2, must be -1 … ")
	}
	c := sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: 8 << 10, AuditBytes: 64 << 10}
	_, _, err := c.Size()
	require.ErrorContains(t, err, "beside AuditBytes 65536")
	_, err = fmt.Sscanf(err.Error(), "sketchlimit: MemoryBytes 8192, must be at least %d", &c.MemoryBytes)
	require.NoError(t, err)
	require.LessOrEqual(t, build(t, c).MemoryBytes(), c.MemoryBytes)
}

package tests

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// odd returns a number that nobody means, or one that is about right.
func odd(r *rand.Rand, right ...int) int {
	if r.IntN(8) > 0 {
		return right[r.IntN(len(right))]
	}
	numbers := []int{math.MinInt, math.MinInt + 1, math.MinInt32, -100, -64, -8, -1, 0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33,
		63, 64, 65, 100, 128, 1000, 1 << 15, 1<<16 - 1, 1 << 16, 1<<16 + 1, 70_000, 1<<24 + 1, 1 << 30, math.MaxInt32 - 1, math.MaxInt32,
		math.MaxInt - 1, math.MaxInt}
	return numbers[r.IntN(len(numbers))]
}

func oddPlan(r *rand.Rand) *sketchlimit.Plan {
	return &sketchlimit.Plan{
		Shards: odd(r, 1, 2, 3), BloomBytes: odd(r, 0, 64, 128), BloomProbes: odd(r, 1, 3), Depth: odd(r, 1, 2, 4),
		Width: odd(r, 0, 16, 32), CellBits: odd(r, 4, 8, 16, 32), HeavyEntries: odd(r, 0, 16, 32), PromoteAt: odd(r, 0, 1, 2, 16),
	}
}

func oddConfig(r *rand.Rand) sketchlimit.Config {
	c := sketchlimit.Config{
		Limit: odd(r, 1, 1, 2, 10, 100, 65_537), Window: []time.Duration{time.Second, time.Minute, 1 << 61}[r.IntN(3)],
		Algorithm: sketchlimit.Algorithm(odd(r, 0, 1, 2)), SubWindows: odd(r, 0, 0, 2), Burst: odd(r, 0, 0, 0, 3), Seed: 1,
		MaxMemoryBytes: odd(r, 0, 0, 0, 1<<20), Clock: at(time.Unix(1_700_000_000, 0)),
	}
	if r.IntN(20) == 0 {
		c.Window = time.Duration(odd(r, 1))
	}
	switch r.IntN(3) {
	case 0:
		c.Keys = odd(r, 1, 100, 10_000)
	case 1:
		c.MemoryBytes = odd(r, 4096, 1<<16)
	case 2:
		c.Plan = oddPlan(r)
	}
	return c
}

// exercise sends what a limiter is sent. It must not panic.
func exercise(l *sketchlimit.Limiter, limit int) {
	now := time.Unix(1_700_000_000, 0)
	for i := range 40 {
		key := keyName(int64(i % 3))
		l.TakeAt(now, key, 1+i%4)
		l.Do(sketchlimit.Request{Time: now, Key: key, Limit: 1 + i})
		l.Reserve(sketchlimit.Request{Time: now, Key: key})
		l.TakeAt(now, key, limit)
		l.Do(sketchlimit.Request{Time: now.Add(time.Hour), Key: key, Peek: true})
		now = now.Add(l.Window() / 3 % (1 << 50))
	}
	l.Stats()
}

// mostBuilt is the memory up to which these tests build what they may.
const mostBuilt = 4 << 20

// Whatever a Config and its Plan say: New returns an error, or a limiter that works.
func TestNewNeverPanics(t *testing.T) {
	testkit.Computes(t)
	r := rand.New(rand.NewPCG(9, 10))
	built, refused := 0, 0
	for range 20_000 / testkit.Divisor {
		c := oddConfig(r)
		_, bytes, err := c.Size()
		if err == nil && bytes > mostBuilt {
			continue
		}
		l, err := sketchlimit.New(c)
		if err != nil {
			refused++
			continue
		}
		built++
		require.NotPanics(t, func() { exercise(l, c.Limit) }, "%+v, %+v", c, c.Plan)
		require.NoError(t, l.Close())
	}
	require.Greater(t, built, 500/testkit.Divisor)
	require.Greater(t, refused, 1000/testkit.Divisor)
}

// A limit of 1 without cells has no table of heavy keys either.
func TestPlanOfALimitOf1WithHeavyEntries(t *testing.T) {
	for _, entries := range []int{-100, -8, 8, 9} {
		_, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Minute, Plan: &sketchlimit.Plan{
			Shards: 1, BloomBytes: 64, BloomProbes: 2, HeavyEntries: entries, PromoteAt: 1}})
		require.ErrorContains(t, err, "sketchlimit: Plan.HeavyEntries", "%d", entries)
	}
}

// Limits that need cells of 32 bits, on machines of 32 bits as well.
func TestNewWithLimitsAbove65536(t *testing.T) {
	for _, limit := range []int{1 << 16, 1<<16 + 1, 1 << 20, math.MaxInt32} {
		for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
			l := build(t, sketchlimit.Config{Limit: limit, Window: time.Minute, Algorithm: algorithm, MemoryBytes: 64 << 10})
			require.Equal(t, limit-1, l.TakeAt(time.Unix(60, 0), "k", 1).Remaining)
			require.True(t, l.TakeAt(time.Unix(60, 0), "k", limit-1).Allowed)
			require.False(t, l.TakeAt(time.Unix(60, 0), "k", 1).Allowed)
		}
	}
}

// sealed puts a snapshot's sums right.
func sealed(b []byte) []byte {
	binary.LittleEndian.PutUint64(b[200:], xxhash.Sum64(b[:200]))
	rest := append(bytes.Clone(b[:200]), b[208:len(b)-8]...)
	binary.LittleEndian.PutUint64(b[len(b)-8:], xxhash.Sum64(rest))
	return b
}

// A sealed snapshot that says anything of its dimensions is refused, or restored as a
// limiter that works, in no more memory than that may take.
func TestSealedSnapshotsOfHostilePlans(t *testing.T) {
	testkit.Computes(t)
	const inUse, before = 64, 128 // bytes of the header
	r := rand.New(rand.NewPCG(11, 12))
	refused := 0
	for i := range 4000 / testkit.Divisor {
		c := sketchlimit.Config{Limit: 1 + i%2*9, Window: time.Minute, MemoryBytes: 8 << 10, MaxMemoryBytes: 1 << 20,
			Algorithm: sketchlimit.Algorithm(i / 2 % 2), Seed: 1, Clock: at(time.Unix(1_700_000_000, 0))}
		l, err := sketchlimit.New(c)
		require.NoError(t, err)
		b := append(snapshot(t, l), make([]byte, 64<<10)...)
		write := func(at int, p *sketchlimit.Plan) {
			for j, n := range []int{p.Shards, p.BloomBytes, p.BloomProbes, p.Depth, p.Width, p.CellBits, p.HeavyEntries, p.PromoteAt} {
				binary.LittleEndian.PutUint64(b[at+8*j:], uint64(n))
			}
		}
		write(inUse, oddPlan(r))
		if r.IntN(2) == 0 {
			write(before, oddPlan(r))
		}
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		require.NotPanics(t, func() { _, err = l.ReadFrom(bytes.NewReader(sealed(b))) }, "%x", b[:200])
		runtime.ReadMemStats(&end)
		require.LessOrEqual(t, end.TotalAlloc-start.TotalAlloc, uint64(2<<20), "%v", err)
		if err != nil {
			refused++
		}
		require.NotPanics(t, func() { exercise(l, c.Limit) })
		require.NoError(t, l.Close())
	}
	require.NotZero(t, refused)
}

func FuzzNew(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		c := oddConfig(rand.New(rand.NewPCG(a, b)))
		if _, bytes, err := c.Size(); err == nil && bytes > mostBuilt {
			t.Skip()
		}
		if l, err := sketchlimit.New(c); err == nil {
			exercise(l, c.Limit)
			l.Close()
		}
	})
}

package main

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everySetting runs a test for all contestants with all settings.
func everySetting(t *testing.T, test func(t *testing.T, c contestant, s setting)) {
	for _, c := range literature {
		for _, s := range c.settings {
			t.Run(c.name+" "+s.String(), func(t *testing.T) { test(t, c, s) })
		}
	}
}

// crowded is a stream that crowds a small sketch: of some keys many requests, and many
// keys with few.
func crowded(seed uint64, n int, f func(key uint32)) {
	random := rand.New(rand.NewPCG(seed, 1))
	for range n {
		key := random.Uint32N(4000)
		if random.IntN(3) == 0 {
			key %= 60
		}
		f(key)
	}
}

func TestSketchesNeverCountTooLittle(t *testing.T) {
	everySetting(t, func(t *testing.T, c contestant, s setting) {
		if !c.oneSided {
			t.Skip("its paper promises no such thing")
		}
		for seed := range uint64(2) {
			for _, bytes := range []int{2 << 10, 8 << 10} {
				sketch, truth := c.build(bytes, s), make(map[uint32]uint32)
				crowded(seed, 10_000, func(key uint32) {
					h := keyHash(key, seed)
					estimate := sketch.estimate(h)
					if estimate < truth[key] {
						t.Fatalf("key %d reads %d, has %d units", key, estimate, truth[key])
					}
					if estimate < limit {
						sketch.add(h, estimate)
						truth[key]++
					}
				})
				for key, n := range truth {
					require.GreaterOrEqual(t, sketch.estimate(keyHash(key, seed)), n)
				}
			}
		}
	})
}

func TestSketchesCountLoneKeysExactly(t *testing.T) {
	everySetting(t, func(t *testing.T, c contestant, s setting) {
		sketch := c.build(64<<10, s)
		for key := range uint32(10) {
			h := keyHash(key, 1)
			for n := range uint32(limit) {
				estimate := sketch.estimate(h)
				require.Equal(t, n, estimate)
				sketch.add(h, estimate)
			}
			require.EqualValues(t, limit, sketch.estimate(h))
		}
		sketch.clear()
		require.Zero(t, sketch.estimate(keyHash(1, 1)))
	})
}

func TestSketchesStayWithinTheirMemory(t *testing.T) {
	everySetting(t, func(t *testing.T, c contestant, s setting) {
		for _, bytes := range []int{4 << 10, 100_000, 128 << 10, 1 << 20} {
			bits := c.build(bytes, s).bits()
			assert.LessOrEqual(t, bits, 8*bytes)
			assert.Greater(t, bits, 8*bytes*98/100, "waste")
		}
	})
}

func TestBitsAreThoseOfTheArrays(t *testing.T) {
	everySetting(t, func(t *testing.T, c contestant, s setting) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		sketch := c.build(4<<20, s)
		runtime.ReadMemStats(&after)
		assert.InEpsilon(t, after.TotalAlloc-before.TotalAlloc, sketch.bits()/8, 0.03)
	})
}

package accuracy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever the span, the series stays bounded, every request is in the bucket of its
// time, and windows and buckets share their borders.
func TestSeries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		window := time.Duration(1+random.IntN(1000)) * time.Millisecond
		most := 2 + random.IntN(150)
		s := newSeries(window, most)
		now := time.Unix(random.Int64N(3e9)-1e9, random.Int64N(1e9)).UTC()
		step := 1 + random.Int64N(int64(time.Hour))
		var times []time.Time
		for range 300 {
			times = append(times, now)
			s.at(now).Requests++
			now = now.Add(time.Duration(random.Int64N(step)))
		}
		buckets := s.all()
		require.LessOrEqual(t, len(buckets), most)
		length := buckets[0].Length
		require.True(t, length%window == 0 || window%length == 0, "bucket %v, window %v", length, window)
		i := 0
		for k, b := range buckets {
			require.Zero(t, floorMod(b.Start.UnixNano(), int64(length)))
			if k > 0 {
				require.Equal(t, buckets[k-1].Start.Add(length), b.Start)
			}
			var n uint64
			for ; i < len(times) && times[i].Before(b.Start.Add(length)); i++ {
				require.False(t, times[i].Before(b.Start))
				n++
			}
			require.Equal(t, n, b.Requests)
		}
		require.Equal(t, len(times), i)
	}
}

func floorMod(a, b int64) int64 { return a - windows.FloorDiv(a, b)*b }

func TestWindowClock(t *testing.T) {
	c := windows.NewClock(10 * time.Second)
	for _, step := range []struct {
		seconds float64
		turns   bool
		number  int64
	}{
		{-0.5, true, -1}, {0, true, 0}, {9.9, false, 0}, {5, false, 0}, {10, true, 1}, {9, false, 1}, {99, true, 9},
	} {
		assert.Equal(t, step.turns, c.Turn(at(step.seconds)), "%v", step.seconds)
		assert.Equal(t, step.number, c.Number)
	}
	end := time.Date(2262, 4, 11, 0, 0, 0, 0, time.UTC)
	c = windows.NewClock(1 << 61)
	assert.True(t, c.Turn(end))
	assert.False(t, c.Turn(end.Add(time.Hour)))
}

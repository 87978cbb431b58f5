package rotating

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimelineSteps(t *testing.T) {
	line := NewTimeline(10)
	for _, step := range []struct {
		unixNano int64
		want     Position
	}{
		{0, Position{0, 0}},
		{9, Position{0, 9}},
		{10, Position{1, 0}},
		{-1, Position{-1, 9}},
		{-10, Position{-1, 0}},
		{-11, Position{-2, 9}},
		{1<<62 - 1, Position{461168601842738790, 3}},
		{1 - 1<<62, Position{-461168601842738791, 7}},
	} {
		require.Equal(t, step.want, line.Position(step.unixNano), step.unixNano)
	}
}

// A position is as good as its unix time and its word, which have one order, for
// lengths of every size.
func TestTimelineRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		length := 1 + r.Int64N(1<<r.IntN(63))
		line := NewTimeline(time.Duration(length))
		var times, words [2]int64
		for i := range times {
			times[i] = r.Int64N(1<<63-1) - 1<<62 + 1
			if i == 1 && r.IntN(2) == 0 { // near the other one
				times[i] = min(1<<62-1, times[0]+r.Int64N(3))
			}
			p := line.Position(times[i])
			require.Equal(t, times[i], line.UnixNano(p))
			require.GreaterOrEqual(t, p.Elapsed, time.Duration(0))
			require.Less(t, int64(p.Elapsed), length)
			require.True(t, line.InRange(p.Generation))
			words[i] = line.Pack(p)
			require.Equal(t, p, line.Unpack(words[i]))
			require.Equal(t, p.Generation, line.Generation(words[i]))
		}
		require.Equal(t, times[0] < times[1], words[0] < words[1])
		require.Equal(t, times[0] == times[1], words[0] == words[1])
	}
}

func TestTimelineAdd(t *testing.T) {
	line := NewTimeline(10)
	for d := range time.Duration(35) {
		require.Equal(t, line.Position(7+int64(d)), line.Add(Position{0, 7}, d))
	}
}

func TestTimelineInRange(t *testing.T) {
	line := NewTimeline(1 << 40)
	require.True(t, line.InRange(1<<22))
	require.False(t, line.InRange(1<<22+1))
	require.True(t, line.InRange(-1<<22-1))
	require.False(t, line.InRange(-1<<22-2))
}

package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// BenchmarkSwitch measures how long decisions take before a limiter is over capacity
// keys, while it does so and its tables grow, when it goes on, and while it returns: ns
// of the 99.9th percentile of each, and how many times that of before it is. The load
// is ten times the plan's; the clock stands in for time, so that all of a window comes
// at once.
func BenchmarkSwitch(b *testing.B) {
	for _, overload := range []sketchlimit.Overload{sketchlimit.Deny, sketchlimit.DenyProven} {
		b.Run("overload="+overload.String(), func(b *testing.B) {
			for range b.N {
				benchmarkSwitch(b, overload)
			}
		})
	}
}

func benchmarkSwitch(b *testing.B, overload sketchlimit.Overload) {
	keys := 250_000
	if testing.Short() {
		keys /= 64
	}
	start := time.Unix(0, 0)
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Minute, Keys: keys, Overload: overload, Seed: 1, Clock: func() time.Time { return start },
	})
	require.NoError(b, err)
	random, before := rand.New(rand.NewPCG(1, 2)), 0.0
	for _, phase := range []struct {
		name           string
		first, windows float64
		keys           int
	}{
		{"before", 0, 1.5, 2 * keys},
		{"begins", 1.5, 1, 20 * keys}, // looks, and wide tables, shard after shard; then all turn
		{"goes-on", 2.5, 0.5, 20 * keys},
		{"returns", 3, 4, 2 * keys},
	} {
		took := make([]time.Duration, int(20*phase.windows*float64(phase.keys)))
		var key [8]byte
		for i := range took {
			at := phase.first + phase.windows*float64(i)/float64(len(took))
			now := start.Add(time.Duration(at * float64(time.Minute)))
			binary.LittleEndian.PutUint64(key[:], uint64(random.IntN(phase.keys)))
			from := time.Now()
			l.Do(sketchlimit.Request{Bytes: key[:], Time: now})
			took[i] = time.Since(from)
		}
		slices.Sort(took)
		p999 := float64(took[len(took)*999/1000])
		if before == 0 {
			before = p999
		}
		b.ReportMetric(p999, phase.name+"-p99.9-ns")
		b.ReportMetric(p999/before, phase.name+"-×")
	}
	require.Equal(b, overload == sketchlimit.DenyProven, l.Stats().OverCapacity.Times == 1)
	b.ReportMetric(0, "ns/op")
}

package accuracy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/tune"
)

func TestWorkloadOfTraffic(t *testing.T) {
	for _, c := range []struct {
		traffic tune.Traffic
		want    Workload
	}{
		{tune.Traffic{Keys: 1000}, Workload{Kind: Uniform, Keys: 1000, Requests: 15_000}},
		{tune.Traffic{Keys: 1000, Requests: 700, Exponent: 0.8}, Workload{Kind: Zipf, Keys: 1000, Requests: 2100, Exponent: 0.8}},
		{tune.Traffic{Keys: 1000, Exponent: 1, OneHit: 0.5}, Workload{Kind: Scan, Keys: 1000, Requests: 30_000, Exponent: 1, OneHit: 0.5}},
		{tune.Traffic{Keys: 1000, Abusers: 0.01, Excess: 4},
			Workload{Kind: Attack, Keys: 990, Abusers: 10, Factor: 4, Limit: 20, Requests: 3 * (5000 + 10*4*20)}},
	} {
		c.want.Windows, c.want.Seed = 3, 1
		w, err := WorkloadOf(c.traffic, 20, 3)
		require.NoError(t, err)
		require.Equal(t, c.want, w)
		_, err = w.Source()
		require.NoError(t, err)
	}
	for want, traffic := range map[string]tune.Traffic{
		"Traffic.Sample of 2 keys, has no workload":                                     {Keys: 5, Sample: []int{1, 2}},
		"Traffic.Abusers 1, must leave other keys":                                      {Keys: 5, Abusers: 1},
		"Traffic.Late, has no workload: go run ./bench/late":                            {Keys: 5, Abusers: 0.4, Late: true},
		"Traffic.Abusers 0.4, goes with even traffic only, not with Exponent or OneHit": {Keys: 5, Abusers: 0.4, Exponent: 1},
	} {
		_, err := WorkloadOf(traffic, 20, 3)
		require.EqualError(t, err, "accuracy: "+want)
	}
}

// A trace and what is planned for it share requests, and what is added to one does not
// show in the other.
func TestTrafficOfATrace(t *testing.T) {
	text := "10\ta\t3\n11\tb\n12\ta\n70\tc\t2\n"
	read, err := ReadTrace(strings.NewReader(text), "x")
	require.NoError(t, err)
	want := tune.NewTrace(time.Minute)
	for r := range read.Requests() {
		want.Add(r.Time, r.Key, r.Cost)
	}
	goal := tune.Goal{Limit: 100, MemoryBytes: 8 << 10}
	plan := func(trace *tune.Trace) tune.Forecast {
		_, f, err := tune.Plan(tune.Traffic{Trace: trace}, goal)
		require.NoError(t, err)
		return f
	}
	shared := read.Traffic(time.Minute)
	require.Equal(t, plan(want), plan(shared))
	for range 3 {
		want.Add(time.Unix(71, 0), "b", 7)
		shared.Add(time.Unix(71, 0), "b", 7)
	}
	require.Equal(t, 7, shared.Len())
	require.Equal(t, plan(want), plan(shared))
	require.Equal(t, 4, read.Len())
	require.Len(t, slices.Collect(read.Requests()), 4)

	fast, err := read.Speed(10)
	require.NoError(t, err)
	require.Equal(t, 4, fast.Traffic(time.Minute).Len())
}

package accuracy

import (
	"testing"

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

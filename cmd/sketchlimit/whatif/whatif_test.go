package whatif

import (
	"math"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/stretchr/testify/require"
)

// workload returns the requests of a specification as package accuracy reads it.
func workload(t testing.TB, spec string) []Request {
	w, err := accuracy.ParseWorkload(spec, accuracy.Workload{Seed: 1})
	require.NoError(t, err)
	source, err := w.Source()
	require.NoError(t, err)
	return requests(source, 1)
}

// requests returns the requests of a source, so many times as fast.
func requests(source accuracy.Source, speed int64) (all []Request) {
	first := int64(-1)
	keys := make(map[string][]byte)
	for r := range source.Requests() {
		at := r.Time.UnixNano()
		if first < 0 {
			first = at
		}
		if keys[r.Key] == nil {
			keys[r.Key] = []byte(r.Key)
		}
		all = append(all, Request{At: first + (at-first)/speed, Key: keys[r.Key], Cost: uint32(r.Cost)})
	}
	return all
}

func analysed(t testing.TB, o Options, log []Request) *Report {
	a, err := New(o)
	require.NoError(t, err)
	a.Add(log)
	return a.Report()
}

// byOracle returns what package exact refuses.
func byOracle(t testing.TB, limit int, window time.Duration, log []Request) (requests, units, keys uint64) {
	oracle, err := exact.NewSlidingWindow(limit, window)
	require.NoError(t, err)
	refused := make(map[string]bool)
	for _, r := range log {
		if !oracle.TakeAt(time.Unix(0, r.At), string(r.Key), int(r.Cost)).Allowed {
			requests, units = requests+1, units+uint64(r.Cost)
			refused[string(r.Key)] = true
		}
	}
	return requests, units, uint64(len(refused))
}

func TestExactIsTheOracle(t *testing.T) {
	for _, spec := range []string{
		"uniform,keys=300,requests=30000,window=10s",
		"zipf:1.1,keys=5000,requests=60000,window=30s",
		"zipf:1,keys=2000,requests=40000,window=20s,cost=30",
		"attack:5,keys=2000,abusers=10,limit=50,window=10s",
		"scan:0.8,keys=1000,requests=40000,window=10s",
		"flash:5,keys=1000,requests=40000,window=15s",
	} {
		t.Run(spec, func(t *testing.T) {
			log := workload(t, spec)
			for i := range log { // the clock goes back now and then, and there are costs that no limit admits
				if i%97 == 0 {
					log[i].At -= int64(i%13) * int64(time.Second)
				}
				if i%501 == 0 {
					log[i].Cost = uint32(i % 3 * 5000)
				}
			}
			o := Options{Exact: true, Limits: []int{1, 2, 5, 10, 37, 100, 1000},
				Windows: []time.Duration{700 * time.Millisecond, 10 * time.Second, time.Minute}}
			for _, w := range analysed(t, o, log).Windows {
				for _, l := range w.Limits {
					requests, units, keys := byOracle(t, l.Limit, w.Window, log)
					require.Equal(t, Estimate{Value: float64(requests)}, l.Requests, "%v %d", w.Window, l.Limit)
					require.Equal(t, Estimate{Value: float64(units)}, l.Units, "%v %d", w.Window, l.Limit)
					require.Equal(t, Estimate{Value: float64(keys)}, l.Keys, "%v %d", w.Window, l.Limit)
				}
			}
		})
	}
}

var _ = math.Abs

package whatif

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
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

// trace returns the requests of a trace in the repository, so many times as fast.
func trace(t testing.TB, path string, speed int64) []Request {
	f, err := os.Open("../../../" + path)
	require.NoError(t, err)
	defer f.Close()
	source, err := accuracy.ReadTrace(f, path)
	require.NoError(t, err)
	return requests(source, speed)
}

func requests(source accuracy.Source, speed int64) (all []Request) {
	first := int64(math.MinInt64)
	keys := make(map[string][]byte)
	for r := range source.Requests() {
		at := r.Time.UnixNano()
		if len(all) == 0 {
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
func byOracle(t testing.TB, limit int, window time.Duration, log []Request) (requests, units, keys float64) {
	oracle, err := exact.NewSlidingWindow(limit, window)
	require.NoError(t, err)
	refused := make(map[string]bool)
	for _, r := range log {
		if !oracle.TakeAt(time.Unix(0, r.At), string(r.Key), int(r.Cost)).Allowed {
			requests, units = requests+1, units+float64(r.Cost)
			refused[string(r.Key)] = true
		}
	}
	return requests, units, float64(len(refused))
}

// disturbed moves some requests back in time, and gives some a cost that few limits
// admit, or none.
func disturbed(log []Request) []Request {
	for i := range log {
		if i%97 == 0 {
			log[i].At -= int64(i%13) * int64(time.Second)
		}
		if i%501 == 0 {
			log[i].Cost = uint32(i % 3 * 500)
		}
	}
	return log
}

func TestExactIsTheOracle(t *testing.T) {
	logs := map[string][]Request{"nasa_19950801": trace(t, "tune/testdata/nasa_19950801.tsv.gz", 20)}
	for _, spec := range []string{
		"uniform,keys=300,requests=20000,window=10s",
		"zipf:1.1,keys=5000,requests=30000,window=30s",
		"zipf:1,keys=2000,requests=30000,window=20s,cost=30",
		"attack:5,keys=2000,abusers=10,limit=50,window=10s",
		"scan:0.8,keys=1000,requests=20000,window=10s",
		"flash:5,keys=1000,requests=20000,window=15s",
	} {
		logs[spec] = disturbed(workload(t, spec))
	}
	for name, log := range logs {
		t.Run(name, func(t *testing.T) {
			r := analysed(t, Options{
				Exact: true, Limits: []int{1, 2, 5, 37, 100},
				Windows: []time.Duration{700 * time.Millisecond, 10 * time.Second, time.Minute},
			}, log)
			for _, w := range r.Windows {
				for _, l := range w.Limits {
					requests, units, keys := byOracle(t, l.Limit, w.Window, log)
					require.Equal(t, Estimate{Value: requests}, l.Requests, "%v %d", w.Window, l.Limit)
					require.Equal(t, Estimate{Value: units}, l.Units, "%v %d", w.Window, l.Limit)
					require.Equal(t, Estimate{Value: keys}, l.Keys, "%v %d", w.Window, l.Limit)
				}
			}
			stepsAddUp(t, r)
		})
	}
}

// stepsAddUp checks that the steps add up to the whole, and that lists have the lengths
// they should.
func stepsAddUp(t *testing.T, r *Report) {
	var all Step
	for _, s := range r.Steps {
		all.add(s)
	}
	require.Equal(t, [2]uint64{r.Requests, r.Units}, [2]uint64{all.Requests, all.Units})
	require.LessOrEqual(t, len(r.Steps), mostSteps)
	for _, w := range r.Windows {
		require.Len(t, w.UseBySteps, len(r.Steps))
		for _, l := range w.Limits {
			var sum Refused
			for _, s := range l.BySteps {
				sum.add(s)
			}
			require.Len(t, l.BySteps, len(r.Steps))
			if l.Requests.Error == 0 && l.Units.Error == 0 {
				require.Equal(t, [2]float64{l.Requests.Value, l.Units.Value}, [2]float64{float64(sum.Requests), float64(sum.Units)})
			}
			for i, b := range l.BySteps {
				require.LessOrEqual(t, b.Requests, r.Steps[i].Requests)
				require.LessOrEqual(t, b.Units, r.Steps[i].Units)
			}
		}
	}
}

// figures are the estimates of a report, in one order.
func figures(r *Report) (all []Estimate) {
	all = append(all, r.Keys)
	for _, w := range r.Windows {
		for _, l := range w.Limits {
			all = append(all, l.Requests, l.Units, l.Keys)
		}
	}
	return all
}

func off(got, want Estimate) float64 { return math.Abs(got.Value - want.Value) }

// In the least memory most keys are not followed. What is told must lie within its
// error, and the error must tell something.
func TestBoundedIsWithinItsError(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector would find nothing, slowly; the gate runs this without it")
	}
	logs := map[string][]Request{"nasa_19950801": trace(t, "tune/testdata/nasa_19950801.tsv.gz", 1)}
	for _, spec := range []string{
		"uniform,keys=100000,requests=250000,window=10m",
		"zipf:1.0,keys=100000,requests=250000,window=1m",
		"zipf:0.8,keys=100000,requests=250000,window=1h",
		"zipf:1.0,keys=60000,requests=120000,window=1m,cost=50",
		"attack:30,keys=40000,abusers=5,limit=100,window=10m,requests=200000",
		"scan:0.9,keys=10000,requests=120000,window=1m",
		"flash:5,keys=40000,requests=120000,window=1m",
	} {
		logs[spec] = workload(t, spec)
	}
	var widths []float64
	wrong := 0
	for name, log := range logs {
		t.Run(name, func(t *testing.T) {
			truth := figures(analysed(t, Options{Exact: true}, log))
			for i, got := range figures(analysed(t, Options{}, log)) {
				require.LessOrEqual(t, off(got, truth[i]), got.Error, "default memory, figure %d: %v, is %v", i, got, truth[i])
			}
			r := analysed(t, Options{Memory: minMemory, Seed: 5}, log)
			stepsAddUp(t, r)
			for i, got := range figures(r) {
				require.LessOrEqual(t, off(got, truth[i]), got.Error, "least memory, figure %d: %v, is %v", i, got, truth[i])
				if off(got, truth[i]) > 0 {
					wrong++
				}
				if got.Error > 0 && truth[i].Value > 0 {
					widths = append(widths, got.Error/truth[i].Value)
				}
			}
		})
	}
	slices.Sort(widths)
	require.Greater(t, wrong, 200, "figures that are estimates")
	require.Less(t, widths[len(widths)/2], 0.5, "the median error, of the figure itself")
}

func TestBatchesMakeNoDifference(t *testing.T) {
	log := disturbed(workload(t, "zipf:1.0,keys=50000,requests=100000,window=100h,cost=3"))
	o := Options{Memory: minMemory, Sample: 100, Seed: 3}
	whole := analysed(t, o, log)
	for _, size := range []int{1, 7, 4096, 5000} {
		a, err := New(o)
		require.NoError(t, err)
		for batch := range slices.Chunk(log, size) {
			a.Add(batch)
			if len(batch) == 5000 {
				a.Report() // and looking makes none either
			}
		}
		require.Equal(t, whole, a.Report(), size)
	}
	require.Equal(t, whole, analysed(t, o, log))
}

func TestAddAllocatesNothingARequest(t *testing.T) {
	log := workload(t, "zipf:1.0,keys=2000,requests=20000,window=1h,windows=1")
	a, err := New(Options{Limits: []int{1, 2}}) // at higher ones keys would be refused that were not before
	require.NoError(t, err)
	a.Add(log)
	for i := range log {
		log[i].At = log[len(log)-1].At
	}
	for range 4 { // keys that came once pass a limit of 2
		a.Add(log)
	}
	require.Less(t, testing.AllocsPerRun(3, func() { a.Add(log) }), 30.0, "a few a chunk of 4096 requests, for a goroutine")
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"whatif: Windows 1µs, must be 1ms … 8760h":                                       {Windows: []time.Duration{time.Microsecond}},
		"whatif: Windows 8761h, must be 1ms … 8760h":                                     {Windows: []time.Duration{8761 * time.Hour}},
		"whatif: 17 Windows, must be 1 … 16":                                             {Windows: make([]time.Duration, 17)},
		"whatif: Limits 0, must be 1 … 1073741824":                                       {Limits: []int{1, 0}},
		"whatif: Limits 1073741825, must be 1 … 1073741824":                              {Limits: []int{1<<30 + 1}},
		"whatif: 65 Limits, must be 1 … 64":                                              {Limits: make([]int, 65)},
		"whatif: Memory 1048576, must be 8388608 … 1099511627776":                        {Memory: 1 << 20},
		"whatif: Sample 3, must be 16 … 16777216":                                        {Sample: 3},
		"whatif: Memory 8388608, must be at least 20971520 for 5 windows with 64 limits": {Memory: 8 << 20, Limits: upTo(64)},
	} {
		_, err := New(o)
		require.EqualError(t, err, want)
	}
	r := analysed(t, Options{Limits: []int{5, 1, 5}, Windows: []time.Duration{time.Minute, time.Second, time.Minute}}, nil)
	require.Len(t, r.Windows, 2)
	require.Len(t, r.Windows[1].Limits, 2)
	require.Equal(t, 5, r.Windows[1].Limits[1].Limit)
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

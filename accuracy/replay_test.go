package accuracy

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// list is a Source written out by hand.
type list []Request

func (l list) Name() string                { return "by hand" }
func (l list) Len() int                    { return len(l) }
func (l list) Requests() iter.Seq[Request] { return slices.Values(l) }

func at(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)).UTC() }

// scripted decides as it is told.
type scripted func(now time.Time, key string, n int) sketchlimit.Decision

func (s scripted) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	return s(now, key, n)
}

// against holds a limiter against the exact fixed window of 4 units in 10 s.
func against(l Limiter) Contest {
	return Contest{4, 10 * time.Second,
		func(func() time.Time) (Limiter, error) { return l, nil },
		func() (exact.Limiter, error) { return exact.NewFixedWindow(4, 10*time.Second) },
	}
}

// sevenRequests: key a comes six times, key b once, all in the first window.
var sevenRequests = list{
	{at(1), "a", 1}, {at(2), "a", 1}, {at(2.5), "b", 1}, {at(3), "a", 1}, {at(4), "a", 1}, {at(5), "a", 1}, {at(6), "a", 1},
}

func replay(t *testing.T, src Source, c Contest, o Options) *Result {
	t.Helper()
	r, err := ReplayContest(context.Background(), src, c, o)
	require.NoError(t, err)
	return r
}

func bins(h Histogram) map[int]uint64 {
	m := map[int]uint64{}
	for _, b := range h.Bins() {
		m[b.From] = b.Count
	}
	return m
}

// The exact algorithm against itself: nothing to complain about.
func TestReplayOfAPerfectLimiter(t *testing.T) {
	perfect, err := exact.NewFixedWindow(4, 10*time.Second)
	require.NoError(t, err)
	bytes := perfect.MemoryBytes() // of no keys yet
	r := replay(t, sevenRequests, against(perfect), Options{})
	// a is light at its first two requests (0 and 1 used of 4), b at its only one.
	assert.Equal(t, Verdict{
		AdmittedRequests: 5, AdmittedUnits: 5, LightRequests: 3, LightKeys: 2, MemoryBytes: bytes,
	}, r.Verdict)
	assert.Equal(t, uint64(5), r.OracleAdmittedUnits)
	assert.Equal(t, uint64(5), r.OracleAdmittedRequests)
	assert.Equal(t, map[int]uint64{0: 7}, bins(r.EstimateError))
	assert.Equal(t, 2, r.Keys)
	assert.Equal(t, 2, r.PeakKeys)
	assert.Equal(t, 1, r.Windows)
	assert.Equal(t, uint64(7), r.Requests)
	assert.Equal(t, uint64(7), r.Units)
	assert.Equal(t, at(1), r.Start)
	assert.Equal(t, at(6), r.End)
}

// Denies everything: the judge, who sees nothing admitted, would have admitted all
// seven. But a is a flooder, and light at its first two requests only: by the lone
// oracle, whatever the limiter does to it.
func TestReplayOfALimiterThatDeniesAll(t *testing.T) {
	no := scripted(func(time.Time, string, int) sketchlimit.Decision { return sketchlimit.Decision{Limit: 4} })
	r := replay(t, sevenRequests, against(no), Options{})
	assert.Equal(t, Verdict{
		FalseDenials: 7, LightRequests: 3, LightFalseDenials: 3, FalseDenialRate: 1, LostShare: 1,
		LightKeys: 2, DeniedLightKeys: 2,
	}, r.Verdict)
	assert.Equal(t, 2, r.WrongedKeys)
	assert.Equal(t, map[int]uint64{4: 2}, bins(r.UnitsEarly))
	assert.Equal(t, map[int]uint64{4: 7}, bins(r.EstimateError))
	assert.Zero(t, r.EstimateTooSmall)
}

// Admits everything and always states three units left: the fifth and the sixth
// unit of a are over-admissions, and all but the first request of each key show a
// remainder that is too large.
func TestReplayOfALimiterThatAdmitsAll(t *testing.T) {
	yes := scripted(func(time.Time, string, int) sketchlimit.Decision {
		return sketchlimit.Decision{Allowed: true, Limit: 4, Remaining: 3}
	})
	r := replay(t, sevenRequests, against(yes), Options{})
	assert.Equal(t, uint64(2), r.OverAdmissions)
	assert.Equal(t, uint64(7), r.AdmittedUnits)
	assert.Zero(t, r.FalseDenials)
	assert.InDelta(t, 1-7./5, r.LostShare, 1e-12)
	assert.Equal(t, uint64(5), r.EstimateTooSmall)
}

// One unit short: a is denied its fourth unit, and again at the fifth and sixth
// request, which the judge, who knows of three, would have admitted. By then it has
// used more than half and is not light.
func TestReplayOfALimiterThatIsOneUnitShort(t *testing.T) {
	short, err := exact.NewFixedWindow(3, 10*time.Second)
	require.NoError(t, err)
	r := replay(t, sevenRequests, against(short), Options{})
	assert.Equal(t, uint64(3), r.FalseDenials)
	assert.Equal(t, uint64(3), r.LightRequests)
	assert.Zero(t, r.LightFalseDenials)
	assert.InDelta(t, 1-4./5, r.LostShare, 1e-12)
	assert.Equal(t, 1, r.WrongedKeys)
	assert.Equal(t, map[int]uint64{1: 1}, bins(r.UnitsEarly))
	assert.Equal(t, map[int]uint64{1: 7}, bins(r.EstimateError))
	assert.Equal(t, []Bucket{{
		Start: at(0.9375), Length: 78125 * time.Microsecond, Requests: 1, Admitted: 1, OracleAdmitted: 1, LightRequests: 1,
	}}, r.Series[:1])
}

// Costs: 3 of 4 units, then 2 (one too many), then 1.
func TestReplayCountsUnits(t *testing.T) {
	perfect, err := exact.NewFixedWindow(4, 10*time.Second)
	require.NoError(t, err)
	src := list{{at(0), "a", 3}, {at(1), "a", 2}, {at(2), "a", 1}, {at(3), "b", 5}}
	r := replay(t, src, against(perfect), Options{})
	assert.Equal(t, uint64(11), r.Units)
	assert.Equal(t, uint64(4), r.AdmittedUnits)
	assert.Equal(t, uint64(2), r.AdmittedRequests)
	assert.Equal(t, uint64(2), r.LightRequests, "a at 0 used, b at 0 used")
	assert.Zero(t, r.FalseDenials+r.OverAdmissions)
}

func TestReplayWindowsAndWarmUp(t *testing.T) {
	var src list
	for window, keys := range []int{3, 5, 1, 2} { // and the last one again after a gap of two
		for k := range keys {
			src = append(src, Request{at(float64(10*window + k)), string(rune('a' + k)), 1})
		}
	}
	src = append(src, Request{at(65), "z", 1})
	no := scripted(func(time.Time, string, int) sketchlimit.Decision { return sketchlimit.Decision{} })

	r := replay(t, src, against(no), Options{})
	assert.Equal(t, uint64(12), r.Requests)
	assert.Equal(t, 5, r.PeakKeys)
	assert.Equal(t, 6, r.Keys)
	assert.Equal(t, 7, r.Windows)
	assert.Equal(t, uint64(12), r.FalseDenials)

	r = replay(t, src, against(no), Options{WarmUp: 2})
	assert.Equal(t, uint64(4), r.Requests)
	assert.Equal(t, uint64(4), r.FalseDenials)
	assert.Equal(t, 3, r.WrongedKeys, "counted from the end of the warm-up: a, b, z")
	assert.Equal(t, uint64(4), r.EstimateError.Count())
	assert.Equal(t, uint64(4), r.OracleAdmittedRequests)
	assert.Equal(t, at(20), r.Start)
	assert.Equal(t, 5, r.PeakKeys, "warm-up included")
	var inSeries uint64
	for _, b := range r.Series {
		inSeries += b.Requests
	}
	assert.Equal(t, uint64(4), inSeries)

	_, err := ReplayContest(context.Background(), src, against(no), Options{WarmUp: 7})
	assert.EqualError(t, err, "accuracy: warm-up of 7 windows, must be less than the 7 of by hand")
}

func TestReplayErrors(t *testing.T) {
	ctx, no := context.Background(), scripted(nil)
	_, err := ReplayContest(ctx, sevenRequests, against(no), Options{WarmUp: -1})
	assert.EqualError(t, err, "accuracy: warm-up of -1 windows, must be 0 …")
	_, err = ReplayContest(ctx, sevenRequests, against(no), Options{Buckets: 1})
	assert.EqualError(t, err, "accuracy: buckets 1, must be 2 … 1000000")
	_, err = ReplayContest(ctx, list{}, against(no), Options{})
	assert.EqualError(t, err, "accuracy: by hand: no requests")
	_, err = Replay(ctx, sevenRequests, sketchlimit.Config{Limit: -1, Window: time.Second, Keys: 1}, Options{})
	assert.ErrorContains(t, err, "Limit -1")
	_, err = Sweep(ctx, sevenRequests, sketchlimit.Config{Limit: 1, Window: time.Second}, nil, Options{})
	assert.EqualError(t, err, "accuracy: sweep: no sizes, must be at least one")
	_, err = Sweep(ctx, sevenRequests, sketchlimit.Config{Limit: 1, Window: time.Second}, []int{1}, Options{})
	assert.ErrorContains(t, err, "MemoryBytes 1")
	_, err = Ablate(ctx, sevenRequests, Ablation{Limit: 1, Window: time.Second, MemoryBytes: 100}, Options{})
	assert.EqualError(t, err, "accuracy: ablation: 100 bytes of memory, must be 4096 … 1<<31-1")
	_, err = Ablate(ctx, sevenRequests, Ablation{Limit: 0, Window: time.Second, MemoryBytes: 1 << 16}, Options{})
	assert.Error(t, err)
	_, err = Compare(ctx, sevenRequests, 0, time.Second, Options{})
	assert.Error(t, err)
	_, err = exact.Of(sketchlimit.Config{Limit: 1, Window: time.Second, Algorithm: 99})
	assert.EqualError(t, err, "exact: algorithm Algorithm(99): it has no exact form")
}

// instrumented has all the optional methods, and looks at the clock it was given.
type instrumented struct {
	scripted
	clock  func() time.Time
	looks  []time.Time
	rates  []float64
	audit  sketchlimit.Audit
	closed int
}

func (i *instrumented) MemoryBytes() int { return 1 << 20 }
func (i *instrumented) Close() error     { i.closed++; return errors.New("close failed") }
func (i *instrumented) Stats() sketchlimit.Stats {
	i.looks = append(i.looks, i.clock())
	rate := i.rates[len(i.looks)-1]
	i.audit.Requests += 100
	i.audit.Denied += uint64(100 * rate)
	return sketchlimit.Stats{FalseDenialRate: rate, Audit: i.audit}
}

// doing notes what it is asked by Do, and what by TakeAt.
type doing struct {
	scripted
	asked []Request
}

func (d *doing) Do(r sketchlimit.Request) sketchlimit.Decision {
	d.asked = append(d.asked, Request{r.Time, string(r.Bytes), r.N})
	return sketchlimit.Decision{}
}

func TestReplayAsksByDo(t *testing.T) {
	l := new(doing)
	var byTakeAt []Request
	l.scripted = func(now time.Time, key string, n int) sketchlimit.Decision {
		byTakeAt = append(byTakeAt, Request{now, key, n})
		return sketchlimit.Decision{}
	}
	trial, err := newTrial(against(l), at(0))
	require.NoError(t, err)
	plain := list{{at(1), "a", 1}, {at(2), "longer", 3}, {at(3), "b", 2}}
	special := list{{at(3), "no cost", 0}, {time.Time{}, "no time", 1}}
	trial.run(plain)
	trial.run(special)
	assert.Equal(t, []Request(plain), l.asked)
	assert.Equal(t, []Request(special), byTakeAt)
}

// A limiter answers a trial as it answers TakeAt, and the trial allocates nothing for
// that.
func TestTrialDecides(t *testing.T) {
	c := sketchlimit.Config{Limit: 3, Window: time.Minute, MemoryBytes: 1 << 16, Seed: 1}
	trial, err := newTrial(NewContest(c), at(0))
	require.NoError(t, err)
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	defer l.Close()
	for _, r := range []Request{{at(1), "a", 2}, {at(2), "a", 2}, {at(3), "", 1}, {at(4), "a", 0}, {at(70), "a", -1}, {at(80), "a", 1}} {
		assert.Equal(t, l.TakeAt(r.Time, r.Key, r.Cost), trial.decide(r.Time, r.Key, r.Cost), "%v", r)
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { trial.decide(at(90), "a", 1) }))
}

func TestReplayReadsStatsAtTheEndsOfWindows(t *testing.T) {
	// 1 MiB: 32,768 requests at least lie between two looks. Windows of 20,000
	// requests end at 10, 20, …: the look at 10 is too early, that at 20 is not.
	var src list
	for i := range 60_000 {
		src = append(src, Request{at(float64(i) / 2000), "a", 1})
	}
	l := &instrumented{rates: []float64{0.5, 0.25}}
	l.scripted = func(time.Time, string, int) sketchlimit.Decision { return sketchlimit.Decision{} }
	c := against(l)
	c.Limiter = func(clock func() time.Time) (Limiter, error) {
		l.clock = clock
		assert.Equal(t, at(0), clock(), "the time of the first request")
		return l, nil
	}
	_, err := ReplayContest(context.Background(), src, c, Options{})
	require.EqualError(t, err, "close failed")
	assert.Equal(t, 1, l.closed)
	assert.Equal(t, []time.Time{at(39_999. / 2000), at(59_999. / 2000)}, l.looks)

	l.looks, l.rates, l.audit = nil, []float64{0.5, 0.25}, sketchlimit.Audit{}
	first, err := newTrial(c, src[0].Time)
	require.NoError(t, err)
	first.run(src)
	first.look(true)
	assert.Equal(t, 0.25, first.liveLatest)

	series := newSeries(c.Window, 10)
	series.look(first)
	first.looks = []look{{at(1), 0.1}, {at(1), 0.4}}
	series.look(first)
	assert.Empty(t, first.looks)
	looks, sum := 0, 0.0
	for _, b := range series.all() {
		looks, sum = looks+b.Looks, sum+float64(b.Looks)*b.LiveLightDenialRate
	}
	assert.Equal(t, 4, looks)
	assert.InDelta(t, 0.1+0.4+0.5+0.25, sum, 1e-9, "the audit counts as many denials as new keys have")
}

func TestReplayMeasuresMemory(t *testing.T) {
	const keys, limiterBytes = 50_000, 8 << 20
	var src list
	for i := range keys {
		src = append(src, Request{at(1), names("m", i, 1), 1})
	}
	c := against(nil)
	c.Limiter = func(func() time.Time) (Limiter, error) {
		big := make([]byte, limiterBytes)
		return scripted(func(time.Time, string, int) sketchlimit.Decision {
			return sketchlimit.Decision{Remaining: int(big[0])}
		}), nil
	}
	m := replay(t, src, c, Options{}).Memory
	assert.Zero(t, m.Stated)
	assert.InEpsilon(t, limiterBytes, m.Heap, 0.02)
	assert.Equal(t, keys, m.OracleKeys)
	// At least a string header, a count and the key itself; maps leave room, but not
	// ten times as much.
	assert.Greater(t, m.OracleHeap, keys*(16+4+nameLength))
	assert.Less(t, m.OracleHeap, keys*10*(16+4+nameLength))
	assert.InDelta(t, float64(m.Heap)/keys, m.PerPeakKey, 1e-9)
	assert.InDelta(t, float64(m.OracleHeap)/keys, m.OraclePerPeakKey, 1e-9)
}

func TestReplayCanBeCancelledAndReportsProgress(t *testing.T) {
	src := source(t, "uniform,keys=100,requests=150000")
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, MemoryBytes: 1 << 16, Seed: 1}
	var steps []int
	_, err := Replay(context.Background(), src, c, Options{Progress: func(done, total int) {
		assert.Equal(t, 150_000, total)
		steps = append(steps, done)
	}})
	require.NoError(t, err)
	assert.Equal(t, []int{65536, 131072, 150_000}, steps)

	ctx, cancel := context.WithCancel(context.Background())
	_, err = Replay(ctx, src, c, Options{Progress: func(done, _ int) {
		assert.LessOrEqual(t, done, 65536)
		cancel()
	}})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Compare(ctx, src, 10, time.Minute, Options{})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Ablate(ctx, src, Ablation{Limit: 10, Window: time.Minute, MemoryBytes: 1 << 16}, Options{})
	assert.ErrorIs(t, err, context.Canceled)
}

// This library's limiters in memory that is far too small: wrong often, never in
// favour of the client, and the same every time.
func TestReplayIsReproducible(t *testing.T) {
	testkit.Computes(t)
	for name, c := range map[string]sketchlimit.Config{
		"fixed":   {Limit: 10, Algorithm: sketchlimit.FixedWindow},
		"sliding": {Limit: 10},
		"slots":   {Limit: 10, SubWindows: 4},
	} {
		t.Run(name, func(t *testing.T) {
			c.Window, c.MemoryBytes, c.Seed = 10*time.Second, 4608, 7
			src := source(t, "zipf:0.9,keys=5000,requests=30000,windows=3,window=10s,cost=2")
			var texts [2]string
			for i := range texts {
				r, err := Replay(context.Background(), src, c, Options{})
				require.NoError(t, err)
				assert.Zero(t, r.OverAdmissions)
				assert.Zero(t, r.EstimateTooSmall)
				assert.Positive(t, r.FalseDenials)
				assert.Positive(t, r.LiveFalseDenialRateMax)
				assert.LessOrEqual(t, r.LightFalseDenials, r.FalseDenials)
				assert.LessOrEqual(t, r.DeniedLightKeys, min(r.WrongedKeys, r.LightKeys))
				assert.Equal(t, r.WrongedKeys, int(r.UnitsEarly.Count()))
				assert.Equal(t, r.Requests, r.EstimateError.Count())
				r.Memory = Memory{}
				b, err := json.Marshal(r)
				require.NoError(t, err)
				texts[i] = string(b)
			}
			assert.Equal(t, texts[0], texts[1])
		})
	}
}

// A sweep is so many replays, only in one pass.
func TestSweepIsManyReplays(t *testing.T) {
	testkit.Computes(t)
	src := source(t, "zipf:0.8,keys=5000,requests=50000,window=1s")
	c := sketchlimit.Config{Limit: 10, Window: time.Second, Seed: 3}
	sizes := []int{4608, 64 << 10}
	points, err := Sweep(context.Background(), src, c, sizes, Options{WarmUp: 1})
	require.NoError(t, err)
	require.Len(t, points, 2)
	for i, p := range points {
		c.MemoryBytes = sizes[i]
		r, err := Replay(context.Background(), src, c, Options{WarmUp: 1})
		require.NoError(t, err)
		assert.Equal(t, SweepPoint{sizes[i], r.Verdict, r.WrongedKeys, r.LiveFalseDenialRateMax, Sample{1, r.Requests, r.Requests}}, p)
	}
	assert.Greater(t, points[0].FalseDenials, points[1].FalseDenials)
}

func TestResultIsJSON(t *testing.T) {
	perfect, err := exact.NewFixedWindow(4, 10*time.Second)
	require.NoError(t, err)
	b, err := json.Marshal(replay(t, sevenRequests, against(perfect), Options{}))
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	for _, name := range []string{
		"source", "limit", "window_ns", "requests", "units", "keys", "peak_keys", "windows", "start", "end",
		"admitted_requests", "admitted_units", "over_admissions", "false_denials", "light_requests",
		"light_false_denials", "false_denial_rate", "lost_share", "memory_bytes",
		"oracle_admitted_requests", "oracle_admitted_units", "wronged_keys", "units_early", "estimate_error",
		"estimate_too_small", "live_false_denial_rate_max", "live_false_denial_rate_last", "live_light_denial_rate", "memory", "series",
	} {
		assert.Contains(t, m, name)
	}
	assert.Len(t, m, 32)
	assert.Contains(t, m["estimate_error"], "bins")
}

func BenchmarkReplay(b *testing.B) {
	size, requests := ",keys=1e6,requests=1e6", 1e6
	if testing.Short() {
		size, requests = ",keys=1e4,requests=1e4", 1e4
	}
	for _, spec := range []string{"zipf:1", "uniform", "scan"} {
		b.Run("spec="+spec, func(b *testing.B) {
			src := source(b, spec+size)
			c := sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: 2 << 20, Seed: 1}
			for b.Loop() {
				_, err := Replay(context.Background(), src, c, Options{})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
		})
	}
}

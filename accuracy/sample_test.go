package accuracy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSampleOf(t *testing.T) {
	for _, c := range []struct {
		spec        string
		above, want int
	}{
		{"uniform,keys=20000,requests=100000", 100_000, 1},
		{"uniform,keys=20000,requests=100000", 99_999, 2},
		{"uniform,keys=20000,requests=100000", 12_500, 8},
		{"uniform,keys=20000,requests=100000", 12_499, 16},
		{"uniform,keys=20000,requests=100000", 1, 16}, // 625 keys would be too few
		{"uniform,keys=1500,requests=100000", 1000, 1},
		{"uniform,keys=2,requests=100000", 1, 1},
		{"scan:1,requests=100000", 1000, 64}, // 100,000 keys, 781 of them too few
	} {
		s, err := sampleOf(context.Background(), source(t, c.spec), c.above)
		require.NoError(t, err)
		assert.Equal(t, c.want, s.of(0, 0).OneKeyIn, "%s above %d", c.spec, c.above)
	}
}

// The keys in the sample are binomially many, and those of a smaller sample are among
// those of a larger.
func TestSampleTakesItsShare(t *testing.T) {
	const n = 100_000
	for mask := uint64(1); mask < 1<<7; mask = 2*mask + 1 {
		got, p := 0., 1/float64(mask+1)
		for i := range n {
			key := fmt.Sprintf("192.0.2.%d", i)
			if (keySample{mask}).has(key) {
				got++
				assert.True(t, keySample{mask / 2}.has(key))
			}
		}
		assert.InDelta(t, n*p, got, 5*math.Sqrt(n*p*(1-p)), "one in %d", mask+1)
	}
}

// parts adds up what single requests add to a count, and holds what those in the
// sample add against the whole.
type parts struct {
	keys          keySample
	whole, sample float64
	byKey         map[string]float64
}

func (p *parts) add(key string, n uint64) {
	if p.byKey == nil {
		p.byKey = map[string]float64{}
	}
	p.whole += float64(n)
	p.byKey[key] += float64(n)
	if p.keys.has(key) {
		p.sample += float64(n)
	}
}

// check: each key is in the sample with probability p, whatever the others are. A sum of
// x over those that are has the mean pΣx and the variance p(1−p)Σx².
func (p *parts) check(t *testing.T, measured uint64, what string) {
	t.Helper()
	assert.EqualValues(t, p.sample, measured, what)
	share, squares := 1/float64(p.keys.mask+1), 0.
	for _, x := range p.byKey {
		squares += x * x
	}
	assert.InDelta(t, share*p.whole, p.sample, 5*math.Sqrt(share*(1-share)*squares), what)
}

// The limiter of a sampled sweep decides as that of a full one does, so the counts are
// those of the requests of the keys in the sample, to the last.
func TestSweepOfASample(t *testing.T) {
	testkit.Computes(t)
	src := source(t, "zipf:0.8,keys=20000,requests=60000,window=10s,cost=2")
	c := sketchlimit.Config{Limit: 10, Window: 10 * time.Second, MemoryBytes: 6 << 10, Seed: 5}
	o := Options{SampleAbove: 15_000}
	points, err := Sweep(context.Background(), src, c, []int{c.MemoryBytes}, o)
	require.NoError(t, err)
	got := points[0]
	require.Equal(t, 4, got.Sample.OneKeyIn)

	keys := keySample{3}
	var requests, admitted, units, denials, innocents, early, exact parts
	for _, p := range []*parts{&requests, &admitted, &units, &denials, &innocents, &early, &exact} {
		p.keys = keys
	}
	contest := NewContest(c)
	full, err := newTrial(contest, at(0))
	require.NoError(t, err)
	alone, err := newLone(contest, keySample{})
	require.NoError(t, err)
	for r := range src.Requests() {
		before, units0, innocents0 := full.v, alone.units, alone.innocents
		full.run([]Request{r})
		alone.run([]Request{r})
		full.tally([]Request{r}, alone)
		requests.add(r.Key, 1)
		admitted.add(r.Key, full.v.AdmittedRequests-before.AdmittedRequests)
		units.add(r.Key, full.v.AdmittedUnits-before.AdmittedUnits)
		denials.add(r.Key, full.v.FalseDenials-before.FalseDenials)
		innocents.add(r.Key, alone.innocents-innocents0)
		early.add(r.Key, full.v.LightFalseDenials-before.LightFalseDenials)
		exact.add(r.Key, alone.units-units0)
	}
	requests.check(t, got.Sample.Requests, "requests")
	admitted.check(t, got.AdmittedRequests, "admitted")
	units.check(t, got.AdmittedUnits, "units")
	denials.check(t, got.FalseDenials, "false denials")
	innocents.check(t, got.LightRequests, "innocent")
	early.check(t, got.LightFalseDenials, "innocent, falsely denied")
	assert.Greater(t, early.sample, 100., "otherwise this test shows little")
	assert.InDelta(t, 1-units.sample/exact.sample, got.LostShare, 1e-12)
	assert.EqualValues(t, 60_000, got.Sample.OfRequests)
	assert.Zero(t, got.OverAdmissions)

	full.look(true)
	assert.Equal(t, full.liveMax, got.LiveFalseDenialRateMax, "stated of all that it has seen")
	wronged := 0
	for key := range full.deniedKeys {
		if keys.has(key) {
			wronged++
		}
	}
	assert.Equal(t, wronged, got.WrongedKeys)

	again, err := Sweep(context.Background(), src, c, []int{c.MemoryBytes}, o)
	require.NoError(t, err)
	assert.Equal(t, points, again)
}

// Whom the judge does not watch, it cannot convict; but whom it watches, it does.
func TestOverAdmissionsAreFoundInASample(t *testing.T) {
	yes := scripted(func(time.Time, string, int) sketchlimit.Decision {
		return sketchlimit.Decision{Allowed: true, Limit: 4, Remaining: 3}
	})
	src := source(t, "uniform,keys=4000,requests=40000,windows=1,window=10s")
	trials, _, err := race(context.Background(), src, []Contest{against(yes)}, Options{SampleAbove: 20_000})
	require.NoError(t, err)
	s := trials[0].sample()
	assert.Equal(t, 2, s.OneKeyIn)
	// A key of 10 requests on average is admitted 6 beyond its limit of 4; Poisson
	// makes it a little more.
	assert.InEpsilon(t, 0.6*float64(s.Requests), trials[0].v.OverAdmissions, 0.05)
}

func TestAblationOfASample(t *testing.T) {
	src := source(t, "scan:0.5,exponent=0.9,keys=5000,requests=40000,window=10s")
	a := Ablation{Limit: 20, Window: 10 * time.Second, MemoryBytes: 8 << 10}
	full, err := Ablate(context.Background(), src, a, Options{})
	require.NoError(t, err)
	part, err := Ablate(context.Background(), src, a, Options{SampleAbove: 10_000})
	require.NoError(t, err)
	for i, f := range full {
		p := part[i]
		assert.Equal(t, Sample{1, 40_000, 40_000}, f.Sample)
		assert.Equal(t, 4, p.Sample.OneKeyIn)
		assert.EqualValues(t, 40_000, p.Sample.OfRequests)
		assert.Equal(t, []any{f.Step, f.Layout, f.MemoryBytes}, []any{p.Step, p.Layout, p.MemoryBytes})
		assert.Less(t, p.LightRequests, f.LightRequests)
		assert.LessOrEqual(t, p.FalseDenials, f.FalseDenials)
	}
	assert.Positive(t, part[0].FalseDenials)
}

func TestCompareOfASample(t *testing.T) {
	testkit.Computes(t)
	const limit, window = 20, 10 * time.Second
	src := source(t, "zipf:0.9,keys=8000,requests=40000,window=10s,cost=3")
	o := Options{SampleAbove: 10_000}
	rows, err := Compare(context.Background(), src, limit, window, o)
	require.NoError(t, err)

	// The algorithms never see the rest of the keys.
	keys, some := keySample{3}, list(nil)
	for r := range src.Requests() {
		if keys.has(r.Key) {
			some = append(some, r)
		}
	}
	thinned, err := Compare(context.Background(), some, limit, window, Options{})
	require.NoError(t, err)
	for i, row := range rows {
		assert.Equal(t, Sample{4, uint64(len(some)), 40_000}, row.Sample)
		row.Sample = thinned[i].Sample
		assert.Equal(t, thinned[i], row)
	}

	runs, err := algorithms(limit, window)
	require.NoError(t, err)
	for i, run := range runs {
		var requests, admitted, units, through, early parts
		for _, p := range []*parts{&requests, &admitted, &units, &through, &early} {
			p.keys = keys
		}
		for r := range src.Requests() {
			before := run.row
			run.run([]Request{r})
			requests.add(r.Key, 1)
			admitted.add(r.Key, run.row.AdmittedRequests-before.AdmittedRequests)
			units.add(r.Key, run.row.AdmittedUnits-before.AdmittedUnits)
			through.add(r.Key, run.row.LetThrough-before.LetThrough)
			early.add(r.Key, run.row.RefusedEarly-before.RefusedEarly)
		}
		got := rows[i]
		requests.check(t, got.Requests, got.Algorithm)
		admitted.check(t, got.AdmittedRequests, got.Algorithm)
		units.check(t, got.AdmittedUnits, got.Algorithm)
		through.check(t, got.LetThrough, got.Algorithm)
		early.check(t, got.RefusedEarly, got.Algorithm)
		assert.LessOrEqual(t, got.PeakLoad, float64(run.ledger.Peak)/limit)
	}

	again, err := Compare(context.Background(), src, limit, window, o)
	require.NoError(t, err)
	assert.Equal(t, rows, again)
}

// The warm-up is of the whole stream, and neither number of requests counts it.
func TestWarmUpOfASample(t *testing.T) {
	testkit.Computes(t)
	src := source(t, "uniform,keys=8000,requests=40000,windows=4,window=10s")
	o := Options{SampleAbove: 20_000, WarmUp: 3}
	rows, err := Compare(context.Background(), src, 20, 10*time.Second, o)
	require.NoError(t, err)
	points, err := Sweep(context.Background(), src, sketchlimit.Config{Limit: 20, Window: 10 * time.Second, Seed: 1}, []int{1 << 16}, o)
	require.NoError(t, err)
	requests := 0
	for r := range src.Requests() {
		if !r.Time.Before(firstOf(t, src).Add(30*time.Second)) && (keySample{1}).has(r.Key) {
			requests++
		}
	}
	want := Sample{2, uint64(requests), 10_000}
	assert.Equal(t, want, rows[0].Sample)
	assert.Equal(t, want, points[0].Sample)
}

func firstOf(t *testing.T, src Source) time.Time {
	t.Helper()
	first, err := firstTime(src)
	require.NoError(t, err)
	return first
}

func TestReplayTakesNoSample(t *testing.T) {
	src := source(t, "uniform,keys=8000,requests=20000,window=10s")
	c := sketchlimit.Config{Limit: 20, Window: 10 * time.Second, MemoryBytes: 1 << 16, Seed: 1}
	r, err := Replay(context.Background(), src, c, Options{SampleAbove: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 20_000, r.EstimateError.Count())
}

func TestSampleErrors(t *testing.T) {
	_, err := Compare(context.Background(), sevenRequests, 4, time.Second, Options{SampleAbove: -1})
	assert.EqualError(t, err, "accuracy: sample above -1 requests, must be 1 …")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = sampleOf(ctx, source(t, "uniform,keys=10,requests=1e6"), 1)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestSampleIsJSON(t *testing.T) {
	b, err := json.Marshal([]any{AlgorithmRow{}, SweepPoint{}, AblationRow{}})
	require.NoError(t, err)
	var all []map[string]any
	require.NoError(t, json.Unmarshal(b, &all))
	for _, m := range all {
		sample, ok := m["sample"].(map[string]any)
		require.True(t, ok)
		for _, name := range []string{"one_key_in", "requests", "of_requests"} {
			assert.Contains(t, sample, name)
		}
	}
}

// What a pool holds on to is no part of what is weighed next.
func TestLiveHeapEmptiesPools(t *testing.T) {
	const size = 8 << 20
	var pool sync.Pool
	for range 8 { // the race detector throws some away
		pool.Put(new([size]byte))
	}
	before := liveHeap()
	assert.InDelta(t, before, liveHeap(), size/2)
}

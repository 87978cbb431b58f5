package accuracy

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Result is one limiter measured on one stream. Where it counts, it counts from
// the end of the warm-up.
type Result struct {
	Source   string        `json:"source"`
	Limit    int           `json:"limit"`
	Window   time.Duration `json:"window_ns"`
	Requests uint64        `json:"requests"`
	Units    uint64        `json:"units"`
	Keys     int           `json:"keys"`      // distinct, warm-up included
	PeakKeys int           `json:"peak_keys"` // distinct in the fullest window, warm-up included
	Windows  int           `json:"windows"`   // from the first request to the last, warm-up included
	Start    time.Time     `json:"start"`     // of the first request counted
	End      time.Time     `json:"end"`       // of the last request

	Verdict

	// What the lone oracle admits.
	OracleAdmittedRequests uint64 `json:"oracle_admitted_requests"`
	OracleAdmittedUnits    uint64 `json:"oracle_admitted_units"`

	WrongedKeys int       `json:"wronged_keys"` // keys ever falsely denied
	UnitsEarly  Histogram `json:"units_early"`  // units such a key had left at its first false denial, one entry a key

	// EstimateError is what the limiter holds against the key beyond what it has
	// used, in units, before every request. Where the limiter holds less, which
	// must not happen, the entry is 0 and EstimateTooSmall counts it.
	EstimateError    Histogram `json:"estimate_error"`
	EstimateTooSmall uint64    `json:"estimate_too_small"`

	// The false-denial rate of a new key as the limiter states it: at the ends of
	// windows, not oftener than every 4096 requests and MemoryBytes/32, in between where
	// twice as many have come, and at the end. 0 if it states none.
	LiveFalseDenialRateMax  float64 `json:"live_false_denial_rate_max"`
	LiveFalseDenialRateLast float64 `json:"live_false_denial_rate_last"`
	// That of light keys, as the limiter's audit has counted it from the first request
	// to the last.
	LiveLightDenialRate float64 `json:"live_light_denial_rate"`

	Memory Memory   `json:"memory"`
	Series []Bucket `json:"series"`
}

// Memory compares what limiter and exact algorithm take, in bytes.
type Memory struct {
	Stated           int     `json:"stated"`              // by the limiter; 0 if it does not
	Heap             int     `json:"heap"`                // live heap that its construction added
	OracleHeap       int     `json:"oracle_heap"`         // live heap of the lone oracle at the end, its copies of the keys included
	OracleKeys       int     `json:"oracle_keys"`         // keys it then holds, those included that it would drop next
	PerPeakKey       float64 `json:"per_peak_key"`        // Stated (or else Heap) / Result.PeakKeys
	OraclePerPeakKey float64 `json:"oracle_per_peak_key"` // OracleHeap / Result.PeakKeys
}

// Replay measures the limiter that c describes on src; the Clock of c is replaced
// by the time of the stream. With a Seed in c the result is the same every time,
// measured memory aside.
//
// The memory that Replay takes is bounded by the keys of the stream, not by its
// requests. A context that ends, ends it with the context's error.
func Replay(ctx context.Context, src Source, c sketchlimit.Config, o Options) (*Result, error) {
	return ReplayContest(ctx, src, NewContest(c), o)
}

// ReplayContest is [Replay] for any limiter.
func ReplayContest(ctx context.Context, src Source, c Contest, o Options) (_ *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	first, err := firstTime(src)
	if err != nil {
		return nil, err
	}
	before := liveHeap()
	t, err := newTrial(c, first)
	if err != nil {
		return nil, err
	}
	heap := liveHeap() - before
	defer func() { err = errors.Join(err, t.close()) }()
	lone, err := newLone(c, keySample{})
	if err != nil {
		return nil, err
	}
	census, series := newCensus(c.Window), newSeries(c.Window, o.Buckets)
	err = walk(ctx, src, c.Window, o, []lane{t, lone, census}, func(batch []Request) {
		t.tally(batch, lone)
		series.count(batch, t, lone)
	})
	if err != nil {
		return nil, err
	}
	t.look(true)
	series.look(t)
	r := census.result(src, c)
	r.collect(t, lone)
	r.Series = series.all()
	r.Memory = memory(t, lone, census, heap)
	return r, nil
}

func (c *census) result(src Source, contest Contest) *Result {
	return &Result{
		Source:   src.Name(),
		Limit:    contest.Limit,
		Window:   contest.Window,
		Requests: c.requests,
		Units:    c.units,
		Keys:     len(c.seen),
		PeakKeys: c.peakKeys(),
		Windows:  int(c.windows.Number - c.windows.First + 1),
		Start:    c.start,
		End:      c.end,
	}
}

func (r *Result) collect(t *trial, l *lone) {
	r.Verdict = t.verdict(l)
	r.OracleAdmittedRequests, r.OracleAdmittedUnits = l.requests, l.units
	r.WrongedKeys, r.UnitsEarly = len(t.deniedKeys), t.unitsEarly
	r.EstimateError, r.EstimateTooSmall = t.estimateError, t.tooSmall
	r.LiveFalseDenialRateMax, r.LiveFalseDenialRateLast = t.liveMax, t.liveLatest
	r.LiveLightDenialRate, _, _ = t.audited.Rate()
}

// memory weighs the lone oracle, which keeps copies of its keys, by letting go of it.
func memory(t *trial, l *lone, c *census, heap int) Memory {
	m := Memory{Stated: t.v.MemoryBytes, Heap: heap, OracleKeys: l.oracle.Keys()}
	before := liveHeap()
	l.oracle = nil
	m.OracleHeap = before - liveHeap()
	bytes, peak := m.Stated, float64(c.peakKeys())
	or(&bytes, m.Heap)
	m.PerPeakKey = ratio(float64(bytes), peak)
	m.OraclePerPeakKey = ratio(float64(m.OracleHeap), peak)
	return m
}

// liveHeap is the heap in use after a collection, in bytes. It takes two: what a
// sync.Pool holds outlives one, and would be gone by the next weighing.
func liveHeap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

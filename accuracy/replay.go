package accuracy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// Options are common to all measurements. The zero value is useful.
type Options struct {
	// WarmUp is the number of windows at the beginning that are replayed but not
	// counted, 0 …, less than the stream has. Default 0: all count.
	WarmUp int
	// Buckets bounds the length of Result.Series: 2 … 1e6; 0 = 120.
	Buckets int
	// SampleAbove is the number of requests above which [Sweep], [Ablate] and [Compare]
	// measure a [Sample] of the keys, with about so many requests at most, rather than
	// all of them: 1 …; 0 = 1e6. Where fewer than 1000 keys would be left, it is
	// more. [Replay] always measures all.
	SampleAbove int
	// Progress, if not nil, is called about every 64k requests and at the end, with
	// the requests done and the requests there are, from the goroutine that called
	// the measurement.
	Progress func(done, total int)
}

func (o *Options) check() error {
	if o.WarmUp < 0 {
		return fmt.Errorf("accuracy: warm-up of %d windows, must be 0 …", o.WarmUp)
	}
	or(&o.Buckets, 120)
	if o.Buckets < 2 || o.Buckets > 1e6 {
		return fmt.Errorf("accuracy: buckets %d, must be 2 … 1000000", o.Buckets)
	}
	or(&o.SampleAbove, sampleAbove)
	if o.SampleAbove < 1 {
		return fmt.Errorf("accuracy: sample above %d requests, must be 1 …", o.SampleAbove)
	}
	return nil
}

// Verdict is how one limiter did against the exact algorithm.
type Verdict struct {
	AdmittedRequests     uint64  `json:"admitted_requests"`
	AdmittedUnits        uint64  `json:"admitted_units"`
	OverAdmissions       uint64  `json:"over_admissions"`        // requests; must be 0
	FalseDenials         uint64  `json:"false_denials"`          // requests, of all keys
	InnocentRequests     uint64  `json:"innocent_requests"`      // of keys that had used less than half their limit by the lone oracle
	InnocentFalseDenials uint64  `json:"innocent_false_denials"` // of these, denied where both oracles admit
	FalseDenialRate      float64 `json:"false_denial_rate"`      // InnocentFalseDenials / InnocentRequests
	InnocentKeys         int     `json:"innocent_keys"`          // with an innocent request
	WrongedInnocentKeys  int     `json:"wronged_innocent_keys"`  // ever denied wrongly while innocent
	WithheldShare        float64 `json:"withheld_share"`         // 1 − AdmittedUnits / units the lone oracle admits
	MemoryBytes          int     `json:"memory_bytes"`           // what the limiter states; 0 if it does not
}

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
	// That of light keys, as the limiter's audit has counted it from the first request to the last.
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

// Limiter is what can be measured. If it also has Do(sketchlimit.Request) sketchlimit.Decision,
// that is asked in place of TakeAt, with the key as Bytes, which must not be kept. If it has
// MemoryBytes() int, Stats() sketchlimit.Stats or Close() error, they are used.
type Limiter interface {
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
}

// Contest is a limiter, and the exact algorithm that it is held against.
type Contest struct {
	Limit  int           // units per key and window, or the burst of a bucket
	Window time.Duration // at the ends of windows Stats is read
	// Limiter builds the limiter. If the limiter reads a clock, for its Stats say, it must be
	// the one given, which shows the time of the stream: to the wall clock every trace is
	// the past.
	Limiter func(clock func() time.Time) (Limiter, error)
	// Oracle builds the exact algorithm, for the judge and for the lone oracle.
	Oracle func() (exact.Limiter, error)
}

// NewContest is the limiter that c describes, at the clock of the stream, against
// the exact form of its algorithm.
func NewContest(c sketchlimit.Config) Contest {
	return Contest{
		Limit:  quota(c),
		Window: c.Window,
		Limiter: func(clock func() time.Time) (Limiter, error) {
			c := c
			c.Clock = clock
			return sketchlimit.New(c)
		},
		Oracle: func() (exact.Limiter, error) { return exact.Of(c) },
	}
}

// quota is the units of a key that has used none.
func quota(c sketchlimit.Config) int {
	if c.Algorithm == sketchlimit.TokenBucket && c.Burst > 0 {
		return c.Burst
	}
	return c.Limit
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
		Windows:  int(c.windows.number - c.windows.first + 1),
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

// firstTime is the time of the first request of src.
func firstTime(src Source) (time.Time, error) {
	for r := range src.Requests() {
		return r.Time, nil
	}
	return time.Time{}, fmt.Errorf("accuracy: %s: no requests", src.Name())
}

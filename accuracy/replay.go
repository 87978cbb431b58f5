package accuracy

import (
	"context"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// Options are common to all measurements. The zero value is useful.
type Options struct {
	// WarmUp is the number of windows at the beginning that are replayed but not
	// counted. Default 0: all counts.
	WarmUp int
	// Buckets bounds the length of Result.Series; 0 = 120, at least 2.
	Buckets int
	// Progress, if not nil, is called about every 64k requests, and at the end, with
	// the requests done and the requests there are, from the goroutine that
	// called the measurement.
	Progress func(done, total int)
}

// Verdict is how one limiter did against the exact algorithm.
type Verdict struct {
	AdmittedRequests     uint64  `json:"admitted_requests"`
	AdmittedUnits        uint64  `json:"admitted_units"`
	OverAdmissions       uint64  `json:"over_admissions"`        // requests; must be 0
	FalseDenials         uint64  `json:"false_denials"`          // requests, of all keys
	InnocentRequests     uint64  `json:"innocent_requests"`      // of keys that had used less than half their limit
	InnocentFalseDenials uint64  `json:"innocent_false_denials"` // requests
	FalseDenialRate      float64 `json:"false_denial_rate"`      // InnocentFalseDenials / InnocentRequests
	WithheldShare        float64 `json:"withheld_share"`         // 1 − AdmittedUnits / units the lone oracle admits
	MemoryBytes          int     `json:"memory_bytes"`           // what the limiter states; 0 if it does not
}

// Result is one limiter measured on one stream.
type Result struct {
	Source   string        `json:"source"`
	Limit    int           `json:"limit"`
	Window   time.Duration `json:"window_ns"`
	Requests uint64        `json:"requests"`
	Units    uint64        `json:"units"`
	Keys     int           `json:"keys"`      // distinct, warm-up included
	PeakKeys int           `json:"peak_keys"` // distinct in the fullest window, warm-up included
	Windows  int           `json:"windows"`   // from the first request to the last, warm-up included
	Start    time.Time     `json:"start"`     // first counted request
	End      time.Time     `json:"end"`       // last request

	Verdict

	// What the lone oracle admits.
	OracleAdmittedRequests uint64 `json:"oracle_admitted_requests"`
	OracleAdmittedUnits    uint64 `json:"oracle_admitted_units"`

	WrongedKeys int       `json:"wronged_keys"` // keys ever falsely denied
	UnitsEarly  Histogram `json:"units_early"`  // units the key had left at its first false denial, one entry a wronged key

	// EstimateError is (units the limiter holds against the key − units it has
	// used), before every request. Overstated remainders are counted apart, and
	// must be none.
	EstimateError    Histogram `json:"estimate_error"`
	EstimateTooSmall uint64    `json:"estimate_too_small"`

	// The false-denial rate for a new key as the limiter states it, at the ends
	// of windows. 0 if it states none.
	LiveFalseDenialRateMax  float64 `json:"live_false_denial_rate_max"`
	LiveFalseDenialRateLast float64 `json:"live_false_denial_rate_last"`

	Memory Memory   `json:"memory"`
	Series []Bucket `json:"series"`
}

// Memory compares what limiter and exact algorithm take, in bytes.
type Memory struct {
	Stated           int     `json:"stated"`              // by the limiter; 0 if it does not
	Heap             int     `json:"heap"`                // live heap that its construction added
	OracleHeap       int     `json:"oracle_heap"`         // live heap of the lone oracle at the end, its keys' bytes included
	OracleKeys       int     `json:"oracle_keys"`         // keys it then held
	PerPeakKey       float64 `json:"per_peak_key"`        // Stated (else Heap) / Result.PeakKeys
	OraclePerPeakKey float64 `json:"oracle_per_peak_key"` // OracleHeap / Result.PeakKeys
}

// Bucket is a stretch of time of the replay. Counts are requests.
type Bucket struct {
	Start          time.Time     `json:"start"`
	Length         time.Duration `json:"length_ns"`
	Requests       uint64        `json:"requests"`
	Admitted       uint64        `json:"admitted"` // by the limiter
	Denied         uint64        `json:"denied"`
	OracleAdmitted uint64        `json:"oracle_admitted"` // by the lone oracle
	OracleDenied   uint64        `json:"oracle_denied"`
	FalseDenials   uint64        `json:"false_denials"`
}

// Limiter is what can be measured. If it also has MemoryBytes() int,
// Stats() sketchlimit.Stats or Close() error, they are used.
type Limiter interface {
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
}

// Contest is any limiter and the exact algorithm it is held against.
type Contest struct {
	Limit   int
	Window  time.Duration
	Limiter func() (Limiter, error)
	Oracle  func() (exact.Limiter, error) // called twice: for the judge and for the lone oracle
}

// Replay builds the limiter that c describes and measures it on src. Its memory is
// bounded by the keys of the stream, not by its requests. A cancelled context
// ends it with the context's error.
func Replay(ctx context.Context, src Source, c sketchlimit.Config, o Options) (*Result, error) {
	panic("todo")
}

// ReplayContest is Replay for any limiter.
func ReplayContest(ctx context.Context, src Source, c Contest, o Options) (*Result, error) {
	panic("todo")
}

package accuracy

import (
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// Limiter is what can be measured. If it also has Do(sketchlimit.Request)
// sketchlimit.Decision, that is asked in place of TakeAt, with the key as Bytes, which
// must not be kept. If it has MemoryBytes() int, Stats() sketchlimit.Stats or Close()
// error, they are used.
type Limiter interface {
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
}

// Contest is a limiter, and the exact algorithm that it is held against.
type Contest struct {
	Limit  int           // units per key and window, or the burst of a bucket
	Window time.Duration // at the ends of windows Stats is read
	// Limiter builds the limiter. If the limiter reads a clock, for its Stats say, it
	// must be the one given, which shows the time of the stream: to the wall clock
	// every trace is the past.
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

// Verdict is how one limiter did against the exact algorithm.
type Verdict struct {
	AdmittedRequests  uint64  `json:"admitted_requests"`
	AdmittedUnits     uint64  `json:"admitted_units"`
	OverAdmissions    uint64  `json:"over_admissions"`     // requests; must be 0
	FalseDenials      uint64  `json:"false_denials"`       // requests, of all keys
	LightRequests     uint64  `json:"light_requests"`      // of keys that had used less than half their limit by the lone oracle
	LightFalseDenials uint64  `json:"light_false_denials"` // of these, denied where both oracles admit
	FalseDenialRate   float64 `json:"false_denial_rate"`   // LightFalseDenials / LightRequests
	LightKeys         int     `json:"light_keys"`          // with a request while light
	DeniedLightKeys   int     `json:"denied_light_keys"`   // ever denied wrongly while light
	LostShare         float64 `json:"lost_share"`          // 1 − AdmittedUnits / units the lone oracle admits
	MemoryBytes       int     `json:"memory_bytes"`        // what the limiter states; 0 if it does not
}

package whatif

import "time"

// Report is the answer. Durations are nanoseconds in JSON.
type Report struct {
	Exact    bool      `json:"exact"`
	Requests uint64    `json:"requests"`
	Units    uint64    `json:"units"`
	Keys     Estimate  `json:"keys"` // distinct keys
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"` // the newest time
	// Backward counts the requests whose time was before the newest so far.
	Backward uint64 `json:"backward,omitempty"`
	Costless uint64 `json:"costless,omitempty"` // requests of cost 0, which every limit refuses

	// StepLength is how long a step of Steps and of all BySteps is: five minutes for a
	// log of up to three hours, an hour, or 2, 4, 8 … hours for a log of more than 31
	// days. Steps begin at multiples of it since the Unix epoch.
	StepLength time.Duration `json:"step_ns"`
	Steps      []Step        `json:"steps"`

	SampledKeys int        `json:"sampled_keys"` // the keys that every Use rests on
	Windows     []Window   `json:"windows"`      // as in Options
	Heaviest    []HeavyKey `json:"heaviest"`     // by requests, the heaviest first
	Suggestion  Suggestion `json:"suggestion"`
	MemoryBytes int        `json:"memory_bytes"` // what the counts take, at the end
}

// Estimate is a number that lies within Error of Value. Error 0 says that the number is
// exact.
type Estimate struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// Step is a stretch of the log.
type Step struct {
	Start    time.Time `json:"start"`
	Requests uint64    `json:"requests"`
	Units    uint64    `json:"units"`
	Keys     float64   `json:"keys"` // distinct; the standard error is 3 %, and 0 if Exact
}

// Use is the distribution of the units that a key uses in one window, over all keys and
// windows with at least one unit, to 1 in 16, or exact if Exact. It rests on Counted
// such pairs of a sampled key and a window. Max of a Window also knows of keys that are
// followed for the limits: some key has as many.
type Use struct {
	Counted uint64 `json:"counted"`
	P50     uint64 `json:"p50"`
	P90     uint64 `json:"p90"`
	P99     uint64 `json:"p99"`
	P999    uint64 `json:"p999"`
	Max     uint64 `json:"max"`
}

// Window is what limits in one window would have done.
type Window struct {
	Window time.Duration `json:"window_ns"`
	// Longer says that the window is longer than the log: the log cannot tell what a
	// second window would bring.
	Longer bool `json:"longer,omitempty"`
	// Sampled is the share of light keys that were followed; the figures of the others
	// are estimated by it. 1 is all.
	Sampled    float64 `json:"sampled"`
	Use        Use     `json:"use"`
	UseBySteps []Use   `json:"use_by_steps"`
	PeakKeys   float64 `json:"peak_keys"`  // the most distinct keys in one window, estimated if Sampled is below 1
	PeakUnits  uint64  `json:"peak_units"` // the most units in one window
	Limits     []Limit `json:"limits"`     // by rising limit
	Knee       int     `json:"knee"`       // the index in Limits where few keys have the most refusals; -1 if there is none
}

// Limit is what one limit would have refused in one window.
type Limit struct {
	Limit    int      `json:"limit"`
	Requests Estimate `json:"requests"` // refused
	Units    Estimate `json:"units"`    // refused
	Keys     Estimate `json:"keys"`     // refused at least once

	RequestShare float64 `json:"request_share"` // of all requests
	KeyShare     float64 `json:"key_share"`     // of all keys

	// Abusers is the share of the keys of a window that were refused in it, a mean over
	// all windows. Excess is how many times the limit they asked for.
	Abusers float64 `json:"abusers"`
	Excess  float64 `json:"excess"`

	// Keys90 and Keys96 are how many keys have 90 % and 96 % of the refused requests; 0
	// if nothing was refused, or if it takes more keys than are told apart.
	Keys90 int        `json:"keys_90"`
	Keys96 int        `json:"keys_96"`
	Top    []HeavyKey `json:"top"` // those with the most refused requests, the heaviest first

	// BySteps are as Report.Steps. They add up to Requests and Units where these are
	// exact. Otherwise they are estimates, too, and no step has more than have come in
	// it.
	BySteps []Refused `json:"by_steps"`
}

// Refused is what a limit refused in one step.
type Refused struct {
	Requests uint64 `json:"requests"`
	Units    uint64 `json:"units"`
}

// HeavyKey is a key with Requests-Error … Requests requests. Key is empty where its
// text is not known.
type HeavyKey struct {
	Key      string `json:"key"`
	Requests uint64 `json:"requests"`
	Error    uint64 `json:"error"`
}

// Suggestion is the limit that separates the few heaviest keys from all others, if
// there is one.
type Suggestion struct {
	// Found says that there is such a limit. Otherwise Limit is the lowest one that
	// refuses nobody as far as is known, or 0.
	Found bool `json:"found"`
	// Demand reports that the limit refuses more than 10 % of the requests: demand
	// rather than abuse, unless its keys are known.
	Demand bool          `json:"demand,omitempty"`
	Window time.Duration `json:"window_ns"`
	Limit  int           `json:"limit"`
	Reason string        `json:"reason"` // with figures, in one or two sentences
	Caveat string        `json:"caveat"` // always to be told with it
}

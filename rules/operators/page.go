// Package operators shows those who operate a service what its rules do: a page in a
// browser, and lines in the log.
package operators

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit/rules"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

//go:embed page.html
var page []byte

// Page shows rules in a browser, with the requests, and who is refused the most. All
// fields but Text must be set before its methods are called, which are safe for
// concurrent use.
type Page struct {
	Rules *rules.Rules
	Top   *topkeys.Top // of refusals
	// Requests returns how many requests have come, and how many of them were refused,
	// since the start.
	Requests func() (requests, refused uint64)
	// Text makes a key of Top readable, or hides it. nil is [rules.KeyText].
	Text func(key []byte) string

	mu    sync.Mutex
	last  []byte
	until time.Time // when it is to be read again
}

// Status is what the page shows.
type Status struct {
	Time        time.Time `json:"time"`
	Requests    uint64    `json:"requests"`
	Refused     uint64    `json:"refused"`
	MemoryBytes int       `json:"memory_bytes"`
	Rules       []Rule    `json:"rules"`
	Top         Top       `json:"top"`
}

// Rule is what the page shows of a rule, see
// [github.com/sketchlimit/sketchlimit.Stats]. Numbers are named as metrics are.
type Rule struct {
	Name            string       `json:"name"`
	Limit           int          `json:"limit"`
	Window          string       `json:"window"`
	Shadow          bool         `json:"shadow"`
	Charge          bool         `json:"charge"`
	Admitted        uint64       `json:"admitted_units"`
	Overdraft       uint64       `json:"overdraft_units"` // units of Admitted that were charged and did not fit
	Denied          uint64       `json:"denied_units"`
	DistinctKeys    float64      `json:"distinct_keys"`
	FalseDenialRate float64      `json:"false_denial_rate"`
	AuditedRate     float64      `json:"audited_false_denial_rate"` // of light keys, in the sample that is counted exactly
	MemoryBytes     int          `json:"memory_bytes"`
	OutsidePlan     bool         `json:"outside_plan"`
	OverCapacity    OverCapacity `json:"over_capacity"`
}

// OverCapacity is what a rule has done beyond its plan, see
// [github.com/sketchlimit/sketchlimit.OverCapacity].
type OverCapacity struct {
	Active bool      `json:"active"`
	Since  time.Time `json:"since,omitzero"`
	Exact  time.Time `json:"exact,omitzero"`
	Times  uint64    `json:"times"`
	Units  uint64    `json:"units"`
}

// Top is who is refused the most.
type Top struct {
	Since time.Time `json:"since"`
	Keys  []Key     `json:"keys"`
}

// Key is one of them.
type Key struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Count  uint64 `json:"count"`
	Error  uint64 `json:"error"` // count may be too high by so many
}

const (
	topKeys = 10
	keep    = time.Second // the least for which what was read is shown again: Stats reads the whole of a limiter
)

// Handler has the page at / and what it shows as JSON at /status; strip the prefix if
// it is elsewhere.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(p.JSON())
	})
	return mux
}

// JSON returns the status, which is read at most once a second, and more rarely if that
// takes long.
func (p *Page) JSON() json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if start := time.Now(); !start.Before(p.until) {
		p.last, _ = json.Marshal(p.Status()) // numbers and strings cannot fail
		end := time.Now()
		p.until = end.Add(max(keep, 9*end.Sub(start))) // at most a tenth of a core
	}
	return p.last
}

// Status reads what the page shows now.
func (p *Page) Status() Status {
	requests, refused := p.Requests()
	st := Status{
		Time: time.Now(), Requests: requests, Refused: refused,
		MemoryBytes: p.Rules.MemoryBytes(), Rules: []Rule{}, Top: Top{Keys: []Key{}},
	}
	for name, r := range p.Rules.Counting() {
		stats := r.Stats()
		rate, _, _ := stats.Audit.Rate()
		st.Rules = append(st.Rules, Rule{
			name, r.Limit, r.Window.String(), r.Shadow, r.Charge, stats.Admitted, stats.Overdraft, stats.Denied,
			stats.DistinctKeys, stats.FalseDenialRate, rate, r.MemoryBytes(), stats.OutsidePlan,
			OverCapacity(stats.OverCapacity),
		})
	}
	text := p.Text
	if text == nil {
		text = rules.KeyText
	}
	report := p.Top.Report()
	st.Top.Since = report.Since
	for _, c := range report.Counts[:min(topKeys, len(report.Counts))] {
		st.Top.Keys = append(st.Top.Keys, Key{c.Policy, text(c.Key), c.Count, c.Error})
	}
	return st
}

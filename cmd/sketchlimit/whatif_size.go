package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
	"github.com/sketchlimit/sketchlimit/tune"
)

const (
	sizeHeadroom = 2 // tomorrow differs from the log
	sizeRate     = 1e-5
	// exactKeys is the number of keys below which an exact limiter takes little enough.
	exactKeys = 10_000
)

// sizing is the limiter that the suggested limit takes.
type sizing struct {
	Keys        int     `json:"keys"`     // of the fullest window of the log
	Units       int     `json:"units"`    // of the fullest window
	Headroom    float64 `json:"headroom"` // the multiple of both that the plan is for
	MemoryBytes int     `json:"memory_bytes"`
	Go          string  `json:"go"`
	Rules       string  `json:"rules"`

	cliff string
}

// at returns the window and the limit that the suggestion names; nil if it names none.
func (r *answer) at() (*whatif.Window, *whatif.Limit) {
	for i := range r.Windows {
		w := &r.Windows[i]
		for k := range w.Limits {
			if w.Window == r.Suggestion.Window && w.Limits[k].Limit == r.Suggestion.Limit {
				return w, &w.Limits[k]
			}
		}
	}
	return nil, nil
}

// size plans a limiter for the suggested limit and the log's fullest window.
func (r *answer) size(ctx context.Context) (*sizing, error) {
	w, l := r.at()
	if l == nil {
		return nil, nil
	}
	s := &sizing{Keys: max(1, int(math.Round(w.PeakKeys))), Headroom: sizeHeadroom}
	s.Units = max(s.Keys, int(w.PeakUnits))
	t := &tuning{
		traffic: tune.Traffic{Keys: s.Keys, Requests: s.admissible(l)},
		goal:    tune.Goal{Limit: l.Limit, FalseDenialRate: sizeRate, Headroom: sizeHeadroom},
		window:  w.Window,
	}
	if l.Abusers > 0 {
		t.traffic.Abusers, t.traffic.Excess = min(l.Abusers, 1), max(1e-6, min(l.Excess, 1e6))
	}
	p := &plans{tuning: t}
	var err error
	if p.planned, err = t.tuned(ctx, t.goal); err != nil {
		return nil, err
	}
	s.MemoryBytes, s.cliff = p.Forecast.MemoryBytes, cliffText(&p.Forecast)
	if s.Go, err = p.code(); err != nil {
		return nil, failure{err}
	}
	s.Rules = s.rules(r.Files[0].Key, w, l, t.traffic.Requests)
	return s, nil
}

// admissible are the units of the fullest window beside those of the keys above the limit.
func (s *sizing) admissible(l *whatif.Limit) int {
	heavy := l.Abusers * l.Excess * float64(s.Keys) * float64(l.Limit)
	return max(s.Keys, int(float64(s.Units)-heavy))
}

// rules is a file of rules with the limit.
func (s *sizing) rules(key string, w *whatif.Window, l *whatif.Limit, light int) string {
	name, _, _ := strings.Cut(key, ",")
	return fmt.Sprintf(`domain: api
descriptors:
  - key: %s
    rate_limit:
      unit: %s
      requests_per_unit: %d
      algorithm: sliding_window
      keys: %d
      units_per_key: %.3g
      headroom: %g
`, name, span(w.Window), l.Limit, s.Keys, min(float64(light)/float64(s.Keys), float64(l.Limit)), s.Headroom)
}

func (s *sizing) section() section {
	prose := fmt.Sprintf("The log's fullest window has %s and %s. A limiter for %g times as much takes %s, at a false-denial rate of %s; its "+
		"cliff is at %s of the log's traffic.", plural(s.Keys, "key", "keys"), plural(s.Units, "unit", "units"), s.Headroom,
		bytesText(s.MemoryBytes), scientific(sizeRate), s.cliff)
	if s.Keys < exactKeys {
		prose += " For so few keys an exact limiter takes little more: package exact."
	}
	return section{ID: "size", Title: "The size it takes", Prose: prose}
}

package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
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
	MemoryBytes int     `json:"memory_bytes,omitempty"`
	Go          string  `json:"go,omitempty"`
	Rules       string  `json:"rules,omitempty"`
	RulesBytes  int     `json:"rules_memory_bytes,omitempty"` // rules have a size of their own, see ruled
	Warning     string  `json:"warning,omitempty"`            // of the rules
	Problem     string  `json:"problem,omitempty"`            // why there is no plan

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
	units := light(&w.Use, l.Limit)
	t := &tuning{
		traffic: tune.Traffic{Keys: s.Keys, Requests: int(math.Ceil(units * float64(s.Keys)))},
		goal:    tune.Goal{Limit: l.Limit, FalseDenialRate: sizeRate, Headroom: sizeHeadroom},
		window:  w.Window,
	}
	if l.Abusers > 0 {
		r := &t.traffic
		r.Abusers, r.Excess = min(l.Abusers*crowd(l.BySteps), 1), max(1e-6, min(l.Excess, 1e6))
		r.Requests += int((r.Abusers*float64(s.Keys) + 1) * (r.Excess*float64(l.Limit) + 1))
	}
	p := &plans{tuning: t}
	var err error
	if p.planned, err = t.tuned(ctx, t.goal); err != nil {
		s.Problem = oneLine(err)
		return s, ctx.Err() // all else has been found out
	}
	s.MemoryBytes, s.cliff = p.Forecast.MemoryBytes, breakingPointText(&p.Forecast)
	if s.Go, err = p.code(); err != nil {
		return nil, failure{err}
	}
	s.ruled(r.descriptors(), w, l, units)
	return s, nil
}

// ruled adds the file of rules and its size. That is another than the plan's: a rule
// states keys and what they use, but no abusers, for whom it is sized as every rule is.
func (s *sizing) ruled(key []accesslog.Part, w *whatif.Window, l *whatif.Limit, units float64) {
	stated := fmt.Sprintf("%.3g", units)
	units, _ = strconv.ParseFloat(stated, 64) // as the file has it
	c := sketchlimit.Config{Limit: l.Limit, Window: w.Window, Keys: s.Keys, UnitsPerKey: units, Headroom: s.Headroom}
	_, bytes, err := c.Size()
	if err != nil {
		s.Problem = oneLine(err)
		return
	}
	s.Rules, s.RulesBytes = s.rules(key, w, l, stated), bytes
	if tooManyUnits(units, l.Limit) {
		s.Warning = fmt.Sprintf("Keys use %s units of a limit of %s, above 0.6 times it: so sized, rules deny first requests of "+
			"new keys. State a lower units_per_key and a higher headroom.", stated, integer(l.Limit))
	}
}

// light bounds what a key uses of the limit in a window, a mean over keys, from above:
// between two percentiles of the log all use as much as the higher one.
func light(u *whatif.Use, limit int) (units float64) {
	for _, part := range []struct {
		share float64
		use   uint64
	}{{.5, u.P50}, {.4, u.P90}, {.09, u.P99}, {.009, u.P999}, {.001, u.Max}} {
		units += part.share * math.Min(float64(part.use), float64(limit))
	}
	return math.Max(units, 1)
}

// crowd is how many times as much is refused in the worst step of the log as on
// average: so many more abusers come at once.
func crowd(steps []whatif.Refused) float64 {
	var most, all uint64
	for _, s := range steps {
		most, all = max(most, s.Requests), all+s.Requests
	}
	if all == 0 {
		return 1
	}
	return float64(most) * float64(len(steps)) / float64(all)
}

// descriptors are the fields of the key as a file of rules names them. The client's
// address is remote_address there, as proxies and package httplimit send it. In JSON
// and CSV another field may be called so: there the address keeps its name.
func (r *answer) descriptors() []accesslog.Part {
	parts := slices.Clone(r.Files[0].Parts)
	for i := range parts {
		client := parts[i].Address
		for _, f := range r.Files {
			client = client && f.IsClient(f.Parts[i].Name)
		}
		if client {
			parts[i].Name = "remote_address"
		}
	}
	return parts
}

// rules is a file of rules with the limit, in which each field of the key is a level.
func (s *sizing) rules(key []accesslog.Part, w *whatif.Window, l *whatif.Limit, units string) string {
	text, indent := "domain: api\n", ""
	for _, p := range key {
		text += indent + "descriptors:\n" + indent + "  - key: " + inYAML(p.Name) + "\n"
		indent += "    "
		if p.Address && (p.V4 < 32 || p.V6 < 128) {
			text += fmt.Sprintf("%sprefixes: {ipv4: %d, ipv6: %d}\n", indent, p.V4, p.V6)
		}
	}
	text += indent + "rate_limit:\n"
	for _, field := range []string{
		"unit: " + whatif.Span(w.Window), fmt.Sprintf("requests_per_unit: %d", l.Limit), "algorithm: sliding_window",
		fmt.Sprintf("keys: %d", s.Keys), "units_per_key: " + units, fmt.Sprintf("headroom: %g", s.Headroom),
	} {
		text += indent + "  " + field + "\n"
	}
	return text
}

// inYAML is a name, in quotes where YAML might take it for something else.
func inYAML(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

var plainName = regexp.MustCompile(`^[A-Za-z][\w.-]*$`)

// section describes what the limit takes. units is the word for requests or units.
func (s *sizing) section(units string) section {
	prose := fmt.Sprintf("The log's fullest window has %s and %s %s. ", plural(s.Keys, "key", "keys"), integer(s.Units), units)
	if s.Problem != "" {
		prose += "No limiter could be planned: " + s.Problem + "."
	} else {
		prose += fmt.Sprintf("Deploy one of the two below: the Go code in a service in Go, or the file of rules where a server of rules decides. "+
			"The Go code is for %g times this traffic and for the keys that the limit refuses. Its `Keys` may be lower: not all of them come in "+
			"each window. It takes %s, and wrongly denies %s of the requests of light keys, those below half of the limit. "+
			"At %s of the log's traffic, its breaking point, it denies one in ten. The file of rules takes %s: a rule is always sized for 1 %% of "+
			"abusers with three times the limit, whatever the log has. `sketchlimit check` tells its breaking point.",
			s.Headroom, bytesText(s.MemoryBytes), scientific(sizeRate), s.cliff, bytesText(s.RulesBytes))
		prose = behind(prose, s.Warning)
	}
	if s.Keys < exactKeys {
		prose += " For so few keys an exact limiter takes little more: package exact."
	}
	return section{ID: "size", Title: "The size it takes", Prose: prose}
}

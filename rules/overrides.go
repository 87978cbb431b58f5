package rules

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// overrides are the rules that count limits of requests' own, by their windows: the
// order of spans.
type overrides []*Rule

// spans are the windows that limits of requests' own may have.
var spans = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// newOverrides returns a rule of so many bytes at most for each window, without a
// limiter; none without bytes.
func newOverrides(bytes int, months bool) (all overrides, err error) {
	if bytes == 0 {
		return nil, nil
	}
	for _, name := range spans {
		rule := &Rule{
			Path: name, Limit: math.MaxInt32, Window: units[name], Algorithm: sketchlimit.FixedWindow, Keyed: true, Override: true,
			title: "override." + name, label: "override." + name,
		}
		rule.counter = counter{place: place{path: name}, limit: rule.Limit, window: rule.Window, algorithm: rule.Algorithm, memory: bytes}
		if _, rule.bytes, err = rule.config().Size(); err != nil {
			return nil, err
		}
		if months && name == "month" {
			if err := rule.byMonths(); err != nil {
				return nil, err
			}
		}
		all = append(all, rule)
	}
	return all, nil
}

// of returns the rule that counts overrides of a window, nil if there is none.
func (o overrides) of(window time.Duration) *Rule {
	for _, rule := range o {
		if rule.Window == window && !rule.Months || rule.Months && window == units["month"] {
			return rule
		}
	}
	return nil
}

// appendEntries appends to key what tells a list of entries from all others of all
// domains.
func appendEntries(key []byte, domain string, d Descriptor) []byte {
	key = appendPart(key, domain)
	for _, e := range d {
		key = appendPart(appendPart(key, e.Key), e.Value)
	}
	return key
}

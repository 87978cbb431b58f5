package tune

import (
	"cmp"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/recorded"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// judged is what the exact algorithm makes of a trace.
type judged struct {
	rule          spec.Rule
	lowest        int64    // limit that requests are judged by
	hashes        []uint64 // of the keys
	fates         []fate   // of the requests
	units         float64  // that are admitted
	lightRequests float64  // requests of light keys
}

// fate is what the exact algorithm does with a request.
type fate uint8

const (
	passes     fate = 1 << iota // at the limit that requests are judged by
	ofLightKey                  // its key has used less than half of that
	admitted                    // at the limit

	calm = passes | ofLightKey
)

// judge sends the requests through the exact algorithm, unless that has just been done.
func (t *Trace) judge(g *Goal) (*judged, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rule, lowest := g.ruleOf(t.window), int64(cmp.Or(g.LowestLimit, g.Limit))
	if j := t.judged; j != nil && j.rule == rule && j.lowest == lowest && len(j.fates) == len(t.requests) {
		return j, nil
	}
	c := g.config()
	c.Window = t.window
	r := &judged{rule: rule, lowest: lowest}
	for _, name := range t.names {
		r.hashes = append(r.hashes, xxhash.Sum64String(name))
	}
	full, err := exact.Of(c)
	if err != nil {
		return nil, err
	}
	quota, held := r.lowest, int64(c.Limit)-r.lowest
	if r.rule.IsBucket() { // of which a search has no lower limits
		quota = r.rule.Burst()
	}
	r.fates = make([]fate, len(t.requests))
	for i, q := range t.requests {
		d := full.TakeAt(time.Unix(0, q.NS), t.names[q.Key], int(q.Units))
		free := int64(d.Remaining) - held
		if d.Allowed {
			free += int64(q.Units)
			r.fates[i] = admitted
		}
		if free >= int64(q.Units) {
			r.fates[i] |= passes
		}
		if 2*(quota-free) < quota {
			r.fates[i] |= ofLightKey
		}
	}
	r.sum(t.requests)
	t.judged = r
	return r, nil
}

// sum counts what is admitted, and requests of light keys.
func (r *judged) sum(requests []recorded.Request) {
	for i, f := range r.fates {
		if f&admitted != 0 {
			r.units += float64(requests[i].Units)
		}
		if f&ofLightKey != 0 {
			r.lightRequests++
		}
	}
}

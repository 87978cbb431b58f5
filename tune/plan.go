package tune

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Plan returns the plan of a limiter that reaches the goal for the traffic in the least
// memory, or with MemoryBytes alone the one that errs least in it, and what to expect
// of it.
//
// It builds a few shards of each candidate and sends them their share of two windows of
// the traffic. What is too rare to be counted there follows from all that their cells
// hold. A plan for a rate also keeps away from the load at which it would deny
// everybody: that is more than twice the stated one.
//
// The result depends on the arguments alone. It takes a second or two, whatever the
// number of keys. Errors name the field and what would be possible.
func Plan(t Traffic, g Goal) (sketchlimit.Plan, Forecast, error) {
	if err := t.check(g.Limit); err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	if err := g.check(); err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	g.Headroom = cmp.Or(g.Headroom, t.usualHeadroom())
	v, err := newEvaluator(t, g)
	if err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	larger := v
	if t.Trace == nil && g.Headroom > 1 {
		if larger, err = newEvaluator(t.times(g.Headroom), g); err != nil {
			return sketchlimit.Plan{}, Forecast{}, err
		}
	}
	d, err := (&search{larger}).run()
	if err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	f := v.forecast(d)
	return g.plan(d, f), f, nil
}

// Predict returns what to expect of a plan, such as one that was made for other
// traffic. Of the goal, the rates and the memory are ignored; the plan must be one for
// its Limit, LowestLimit, Algorithm, SubWindows and Burst.
//
// Rates of windows under the traffic as stated that are above about 1e-5 are counted in
// a simulation larger than [Plan] has the time for. That takes up to some seconds.
func Predict(t Traffic, g Goal, p sketchlimit.Plan) (Forecast, error) {
	v, d, err := predicting(t, g, p)
	if err != nil {
		return Forecast{}, err
	}
	return v.forecast(d), nil
}

// PredictAt is [Predict] for one multiple of the traffic, keys and requests alike, 1/64
// … 64.
func PredictAt(t Traffic, g Goal, p sketchlimit.Plan, load float64) (Expected, error) {
	if !(load >= 1/maxLoad && load <= maxLoad) {
		return Expected{}, fmt.Errorf("tune: load %v, must be 1/%g … %g", load, maxLoad, maxLoad)
	}
	v, d, err := predicting(t, g, p)
	if err != nil {
		return Expected{}, err
	}
	return v.at(d, load), nil
}

// run returns the plan, without forecast.
func (s *search) run() (spec.Dimensions, error) {
	if s.replays != nil {
		return s.byReplay()
	}
	return s.bySimulation()
}

// predicting checks what a plan is to be predicted for.
func predicting(t Traffic, g Goal, p sketchlimit.Plan) (*evaluator, spec.Dimensions, error) {
	g.FalseDenialRate, g.LostShare, g.MemoryBytes = unasked, 0, 0
	if err := t.check(g.Limit); err != nil {
		return nil, spec.Dimensions{}, err
	}
	if err := g.check(); err != nil {
		return nil, spec.Dimensions{}, err
	}
	c := g.config()
	c.Plan = &p
	if _, _, err := c.Size(); err != nil {
		return nil, spec.Dimensions{}, fmt.Errorf("tune: %s", strings.TrimPrefix(err.Error(), "sketchlimit: "))
	}
	v, err := newEvaluator(t, g)
	if err != nil {
		return nil, spec.Dimensions{}, err
	}
	v.counting = true
	d := dimensions(p)
	if bytes, _ := engine.BytesOf(&v.need.Rule, &d); 2*(bytes+sizing.Overhead) < v.smallest() { // a plan does not use all it is given
		return nil, d, fmt.Errorf("tune: Plan of %d bytes, %w", bytes+sizing.Overhead, v.tooSmall())
	}
	return v, d, nil
}

// dimensions returns those of a plan.
func dimensions(p sketchlimit.Plan) spec.Dimensions {
	return spec.Dimensions{
		Shards: p.Shards, BloomBytes: p.BloomBytes, BloomProbes: p.BloomProbes, Depth: p.Depth, Width: p.Width,
		CellBits: p.CellBits, HeavyEntries: p.HeavyEntries, PromoteAt: p.PromoteAt,
	}
}

// plan returns dimensions as a plan for the goal.
func (g *Goal) plan(d spec.Dimensions, f Forecast) sketchlimit.Plan {
	return sketchlimit.Plan{
		Shards: d.Shards, BloomBytes: d.BloomBytes, BloomProbes: d.BloomProbes, Depth: d.Depth, Width: d.Width,
		CellBits: d.CellBits, HeavyEntries: d.HeavyEntries, PromoteAt: d.PromoteAt,
		Limit: g.Limit, LowestLimit: g.LowestLimit, Algorithm: g.Algorithm, SubWindows: g.SubWindows, Burst: g.Burst,
		Keys: f.Keys * g.Headroom, FalseDenialRate: f.Stated().FalseDenialRate, Goal: g.FalseDenialRate,
	}
}

package main

import (
	"context"
	"math"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
)

// plans are what was planned. Their JSON form is what --json prints.
type plans struct {
	*tuning  `json:"-"`
	Plan     sketchlimit.Plan   `json:"plan"`
	Half     *sketchlimit.Plan  `json:"half,omitempty"`     // the best one in half of the memory, if there is one
	Double   *sketchlimit.Plan  `json:"double,omitempty"`   // and in twice as much
	Loads    []loadPoint        `json:"loads,omitempty"`    // what to expect of Plan, for --html
	Sizes    []sketchlimit.Plan `json:"sizes,omitempty"`    // the best ones from a quarter to four times the memory, for --html
	Verified *accuracy.Result   `json:"verified,omitempty"` // for --verify
}

// loadPoint is what to expect under a multiple of the traffic.
type loadPoint struct {
	Load float64 `json:"load"`
	sketchlimit.Expected
}

const (
	leastRate = 1e-12 // rates below are too low to tell, and no goal
	leastLoad = 0.25  // where the curves begin
	farthest  = 64    // a Forecast's Cliff stands for all beyond
)

// plan chooses the plan for the goal, and those beside it.
func (t *tuning) plan(ctx context.Context) (*plans, error) {
	p := &plans{tuning: t}
	var err error
	if p.Plan, err = t.tuned(ctx, t.goal); err != nil {
		return nil, err
	}
	if p.Half, err = p.sized(ctx, 0.5); err != nil {
		return nil, err
	}
	p.Double, err = p.sized(ctx, 2)
	return p, err
}

func (t *tuning) tuned(ctx context.Context, g sketchlimit.Goal) (sketchlimit.Plan, error) {
	plan, err := interruptible(ctx, func() (sketchlimit.Plan, error) { return sketchlimit.Tune(t.traffic, g) })
	if ctx.Err() != nil {
		return plan, ctx.Err()
	}
	return plan, inFlags(err)
}

// sized returns the best plan in so many times the memory of the chosen one; nil if no limiter
// is as small or as large.
func (p *plans) sized(ctx context.Context, factor float64) (*sketchlimit.Plan, error) {
	g := p.goal
	g.FalseDenialRate, g.WithheldShare = 0, 0
	g.MemoryBytes = int(factor * float64(p.Plan.Forecast.MemoryBytes))
	c := p.config()
	c.MemoryBytes = g.MemoryBytes
	if _, err := c.Bytes(); err != nil {
		return nil, nil
	}
	plan, err := p.tuned(ctx, g)
	return &plan, err
}

// beside are the plans by their size.
func (p *plans) beside() []sketchlimit.Plan {
	var s []sketchlimit.Plan
	for _, plan := range []*sketchlimit.Plan{p.Half, &p.Plan, p.Double} {
		if plan != nil {
			s = append(s, *plan)
		}
	}
	return s
}

// curves fills in what the page draws.
func (p *plans) curves(ctx context.Context) error {
	last := math.Min(2*max(p.Plan.Forecast.Cliff, 1), farthest)
	const points = 24
	for i := range points + 1 {
		load := leastLoad * math.Pow(last/leastLoad, float64(i)/points)
		e, err := interruptible(ctx, func() (sketchlimit.Expected, error) {
			return sketchlimit.PredictAt(p.traffic, p.goal, p.Plan, load)
		})
		if err != nil {
			return err
		}
		p.Loads = append(p.Loads, loadPoint{load, e})
	}
	for i := -4; i <= 4; i++ {
		var plan *sketchlimit.Plan
		var err error
		switch i {
		case -2:
			plan = p.Half
		case 0:
			plan = &p.Plan
		case 2:
			plan = p.Double
		default:
			plan, err = p.sized(ctx, math.Pow(2, float64(i)/2))
		}
		if err != nil {
			return err
		}
		if plan != nil {
			p.Sizes = append(p.Sizes, *plan)
		}
	}
	return nil
}

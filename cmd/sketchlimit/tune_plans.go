package main

import (
	"context"
	"io"
	"math"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/tune"
)

// planned is a plan and what to expect of it.
type planned struct {
	Plan     sketchlimit.Plan `json:"plan"`
	Forecast tune.Forecast    `json:"forecast"`
}

// plans are what was planned. Their JSON form is what --json prints.
type plans struct {
	*tuning  `json:"-"`
	planned                   // for the goal
	Half     *planned         `json:"half,omitempty"`        // the best one in half of the memory, if there is one
	Double   *planned         `json:"double,omitempty"`      // and in twice as much
	Loads    []tune.Expected  `json:"loads,omitempty"`       // what to expect of Plan, for --html
	Sizes    []planned        `json:"sizes,omitempty"`       // the best ones from a quarter to four times the memory, for --html
	Even     *tune.Expected   `json:"even_steady,omitempty"` // of Plan with --even and --steady, for --verify
	Verified *accuracy.Result `json:"verified,omitempty"`    // for --verify
}

const (
	// belowTelling are predicted rates that rest on a tail which nobody could measure.
	belowTelling = 1e-9
	leastLoad    = 0.25 // where the curves begin
	farthest     = 64   // a Forecast's BreakingPoint stands for all beyond
)

// plan chooses the plan for the goal, and those beside it.
func (t *tuning) plan(ctx context.Context, errOut io.Writer) (*plans, error) {
	p := &plans{tuning: t}
	bar := working(errOut, "planning", -1)
	defer bar.finish()
	if t.traffic.Trace != nil {
		t.traffic.Trace.Progress = func(requests int) { bar.set("replaying for a plan", requests) }
	}
	var err error
	if p.planned, err = t.tuned(ctx, t.goal); err != nil {
		return nil, err
	}
	if p.Half, err = p.sized(ctx, 0.5); err != nil {
		return nil, err
	}
	if p.Double, err = p.sized(ctx, 2); err != nil {
		return nil, err
	}
	if t.html != "" {
		err = p.curves(ctx)
	}
	return p, err
}

func (t *tuning) tuned(ctx context.Context, g tune.Goal) (planned, error) {
	p, err := interruptible(ctx, func() (p planned, err error) {
		p.Plan, p.Forecast, err = tune.Plan(t.traffic, g)
		return p, err
	})
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	return p, inFlags(err)
}

// sized returns the best plan in so many times the memory of the chosen one; nil if no
// limiter is as small or as large.
func (p *plans) sized(ctx context.Context, factor float64) (*planned, error) {
	g := p.goal
	g.FalseDenialRate, g.LostShare = 0, 0
	g.MemoryBytes = int(factor * float64(p.Forecast.MemoryBytes))
	sized, err := p.tuned(ctx, g)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil: // with the plan as large as the traffic needs there was none
		return nil, nil
	}
	return &sized, nil
}

// shown are the plans by their size.
func (p *plans) shown() []*planned {
	var s []*planned
	for _, one := range []*planned{p.Half, &p.planned, p.Double} {
		if one != nil {
			s = append(s, one)
		}
	}
	return s
}

// curves fills in what the page draws.
func (p *plans) curves(ctx context.Context) error {
	last := math.Min(2*max(p.Forecast.BreakingPoint, 1), farthest)
	const points = 24
	for i := range points + 1 {
		load := leastLoad * math.Pow(last/leastLoad, float64(i)/points)
		e, err := interruptible(ctx, func() (tune.Expected, error) {
			return tune.PredictAt(p.traffic, p.goal, p.Plan, load)
		})
		if err != nil {
			return err
		}
		p.Loads = append(p.Loads, e)
	}
	for i := -4; i <= 4; i++ {
		var sized *planned
		var err error
		switch i {
		case -2:
			sized = p.Half
		case 0:
			sized = &p.planned
		case 2:
			sized = p.Double
		default:
			sized, err = p.sized(ctx, math.Pow(2, float64(i)/2))
		}
		if err != nil {
			return err
		}
		if sized != nil {
			p.Sizes = append(p.Sizes, *sized)
		}
	}
	return nil
}

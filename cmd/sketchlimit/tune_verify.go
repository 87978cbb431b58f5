package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/tune"
)

// replayedWindows is how long made-up traffic is, the first window included, which only
// fills the generations.
const replayedWindows = 3

// verify replays requests through a limiter of the plan.
func (p *plans) verify(ctx context.Context, src accuracy.Source, errOut io.Writer) error {
	c := p.config()
	c.Plan, c.Seed = &p.Plan, 1
	if err := boundReplay(p.Forecast.MemoryBytes, "--verify: a limiter of the plan"); err != nil {
		return err
	}
	bar := newProgress(errOut, src.Len(), stageReplay)
	o := bar.stage(stageReplay)
	o.WarmUp = p.warmUp()
	r, err := accuracy.Replay(ctx, src, c, o)
	bar.finish()
	if err != nil {
		return failure{err}
	}
	p.Verified = r
	if p.traffic.Trace != nil {
		return nil
	}
	even := p.traffic
	even.Even, even.Steady = true, true
	e, err := tune.PredictAt(even, p.goal, p.Plan, 1)
	p.Even = &e
	return err
}

// warmUp is the windows that are not counted. A trace is counted from its first request
// on, as report does.
func (t *tuning) warmUp() int {
	if t.given("trace") {
		return 0
	}
	return 1
}

// workload is the stated traffic as accuracy makes it up.
func (t *tuning) workload() (accuracy.Source, error) {
	w, err := accuracy.WorkloadOf(t.traffic, t.goal.Limit, replayedWindows)
	if err != nil {
		return nil, fmt.Errorf("--verify: %w", inFlags(errors.New(oneLine(err))))
	}
	if keys := float64(w.Keys+w.Abusers) + w.OneHit*float64(w.Requests); keys > maxKeys || w.Requests > maxRequests || w.Requests < 0 {
		return nil, fmt.Errorf("--verify: replays %d windows of all requests, must be at most %s of %s in all",
			replayedWindows, integer(maxRequests), plural(maxKeys, "key", "keys"))
	}
	w.Window = t.window
	src, err := w.Source()
	if err != nil {
		return nil, errors.New("--verify: " + oneLine(err))
	}
	return src, nil
}

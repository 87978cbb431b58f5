package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sketchlimit/sketchlimit/accuracy"
)

// replayedWindows is how long made-up traffic is, the first window included, which only fills
// the generations.
const replayedWindows = 3

// verify replays requests through a limiter of the plan.
func (p *plans) verify(ctx context.Context, src accuracy.Source, errOut io.Writer) error {
	c := p.config()
	c.Plan, c.Seed = &p.Plan, 1
	bar := newProgress(errOut, src.Len(), stageReplay)
	o := bar.stage(stageReplay)
	o.WarmUp = p.warmUp()
	r, err := accuracy.Replay(ctx, src, c, o)
	bar.finish()
	if err != nil {
		return failure{err}
	}
	p.Verified = r
	return nil
}

// warmUp is the windows that are not counted. A trace is counted from its first request on, as
// report does.
func (t *tuning) warmUp() int {
	if t.given("trace") {
		return 0
	}
	return 1
}

// workload is the stated traffic as accuracy makes it up.
func (t *tuning) workload() (accuracy.Source, error) {
	r := t.traffic
	or(&r.Excess, 3) // as Traffic has it, and five requests a key
	abusers := math.Round(r.Abusers * float64(r.Keys))
	or(&r.Requests, int((5*float64(r.Keys)+abusers*r.Excess*float64(t.goal.Limit))/(1-r.OneHit)))
	w := accuracy.Workload{Kind: accuracy.Uniform, Keys: r.Keys, Requests: replayedWindows * r.Requests, Windows: replayedWindows,
		Window: t.window, Seed: 1, Exponent: r.Exponent}
	switch {
	case abusers > 0 && (r.Exponent > 0 || r.OneHit > 0):
		return nil, errors.New("--verify with --abusers, goes with even traffic beside them only, not with --zipf or --one-hit")
	case int(abusers) == r.Keys:
		return nil, fmt.Errorf("--verify with --abusers %g, must leave other keys", r.Abusers)
	case abusers > 0:
		w.Kind, w.Limit, w.Factor, w.Abusers = accuracy.Attack, t.goal.Limit, r.Excess, int(abusers)
		w.Keys -= w.Abusers
	case r.OneHit > 0:
		w.Kind, w.OneHit = accuracy.Scan, r.OneHit
	case r.Exponent > 0:
		w.Kind = accuracy.Zipf
	}
	src, err := w.Source()
	if err != nil {
		return nil, errors.New("--verify: " + oneLine(err))
	}
	return src, nil
}

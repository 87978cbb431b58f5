package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// An engine of a coarse rule decides the same and tells less of it, so that who asks does not learn by a unit or two which
// keys share cells.

// coarseSteps are the steps in which a coarse rule tells what a key has used.
const coarseSteps = 4

// told returns what is told of a verdict on a request at a position and a limit. The compiler inlines it.
func (e *Engine) told(v spec.Verdict, p rotating.Position, limit int64) spec.Verdict {
	if e.Coarse {
		return e.toldCoarsely(v, p, limit)
	}
	return v
}

// toldCoarsely is told for a coarse rule. ResetAfter is that of a quota that is used up at that position. Remaining is
// in steps. Even an unused quota is told as one step less: otherwise one unit could be told from none.
//
// RetryAfter is exact: a request is only denied where the cells are full.
func (e *Engine) toldCoarsely(v spec.Verdict, p rotating.Position, limit int64) spec.Verdict {
	quota := e.Quota(limit)
	if v.Remaining > 0 {
		step := (quota + coarseSteps - 1) / coarseSteps
		used := (quota-int64(v.Remaining))/step + 1
		v.Remaining = int(max(1, quota-used*step))
	}
	v.ResetAfter = max(v.ResetAfter, e.algorithm.resetAfter(&e.Rule, p, quota, limit))
	return v
}

package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// coarseSteps are the steps in which a coarse rule tells what a key has used.
const coarseSteps = 4

// Coarse returns the rule whose engines decide the same and tell less of it, so that who asks does not learn by a unit
// or two which keys share cells.
func (w Rule) Coarse() Rule {
	w.coarse = true
	return w
}

// told returns what is told of a verdict on a request at a position and a limit. The compiler inlines it.
func (w *Rule) told(v Verdict, p rotating.Position, limit int64) Verdict {
	if w.coarse {
		return w.toldCoarsely(v, p, limit)
	}
	return v
}

// toldCoarsely is told for a coarse rule. ResetAfter is that of a quota that is used up at that position. Remaining is
// in steps. Even an unused quota is told as one step less: otherwise one unit could be told from none.
//
// RetryAfter is exact: a request is only denied where the cells are full.
func (w *Rule) toldCoarsely(v Verdict, p rotating.Position, limit int64) Verdict {
	quota := w.quota(limit)
	if v.Remaining > 0 {
		step := (quota + coarseSteps - 1) / coarseSteps
		used := (quota-int64(v.Remaining))/step + 1
		v.Remaining = int(max(1, quota-used*step))
	}
	v.ResetAfter = max(v.ResetAfter, w.wholeAfter(p, quota, limit))
	return v
}

// wholeAfter returns the time until a quota is whole again that is used up at a position.
func (w *Rule) wholeAfter(p rotating.Position, quota, limit int64) time.Duration {
	if !w.IsBucket() {
		return w.ResetAfter(p, 0)
	}
	if limit == 0 {
		return 0
	}
	return time.Duration(w.bucket.Takes(quota, limit))
}

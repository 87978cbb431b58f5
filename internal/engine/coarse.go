package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// redact returns what is told of a verdict on a request at a position and a limit: less where the rule is coarse. The compiler
// inlines it.
func (e *Engine) redact(v spec.Verdict, p rotating.Position, limit int64) spec.Verdict {
	if e.Coarse {
		return e.redactCoarse(v, p, limit)
	}
	return v
}

func (e *Engine) redactCoarse(v spec.Verdict, p rotating.Position, limit int64) spec.Verdict {
	quota := e.Quota(limit)
	return v.Coarse(quota, e.algorithm.resetAfter(&e.Rule, p, quota, limit))
}

package audit

import "github.com/sketchlimit/sketchlimit/internal/spec"

// None samples no key.
var None = new(Audit)

// Of returns an audit for a rule that has not started, of at most so many bytes: None
// if there is none so small.
func Of(rule *spec.Rule, bytes int) (a *Audit) {
	if rule.IsBucket() {
		a = Bucket(rule.Limit, rule.Bucket.Span, rule.Bucket.Burst, rule.Fills(), bytes)
	} else {
		a = Window(rule.Limit, rule.Timeline.Length(), rule.Ring.Buffers(), bytes)
	}
	if a.Bytes() == 0 {
		return None
	}
	return a
}

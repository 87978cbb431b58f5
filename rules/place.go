package rules

import (
	"strconv"

	"github.com/sketchlimit/sketchlimit"
)

// Place is the name of the rule that no other rule has, also after the files are read
// again and in another process: it is where in its domain the rule stands.
func (r *Rule) Place() string {
	if r.Override {
		return r.title
	}
	return strconv.Quote(r.Domain) + r.counter.place.exact
}

// Limiter returns what the rule counts with, to keep its counts over a restart or share
// them with other processes; nil if it counts nothing. Ask for decisions by [Rules.Do].
func (r *Rule) Limiter() *sketchlimit.Limiter { return r.limiter }

package operators

import (
	"log/slog"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Log logs once when a rule is over capacity, and once when it has ended, and each
// time that counts of a rule were dropped. It is for one goroutine.
type Log struct {
	logger  *slog.Logger
	last    map[string]sketchlimit.OverCapacity // by rule
	dropped map[string]uint64                   // the same
}

// NewLog returns a log that has told nothing yet.
func NewLog(logger *slog.Logger) *Log {
	return &Log{logger, map[string]sketchlimit.OverCapacity{}, map[string]uint64{}}
}

// Look reads all rules, which takes milliseconds for each MiB, and logs what is new.
func (l *Log) Look(limits *rules.Rules) {
	for name, r := range limits.Counting() {
		l.tell(name, r.Stats().OverCapacity)
		if n := r.Dropped(); n > l.dropped[name] {
			l.logger.Warn("counts of a rule were let go when it was changed: keys may have a fresh quota",
				"rule", name, "line", r.Line, "times", n-l.dropped[name])
			l.dropped[name] = n
		}
	}
}

// tell logs what is new of a rule.
func (l *Log) tell(name string, now sketchlimit.OverCapacity) {
	was := l.last[name]
	if now.Times < was.Times { // the rule has changed, and counts anew
		was = sketchlimit.OverCapacity{}
	}
	l.last[name] = now
	began := now.Times > was.Times || now.Active && !was.Active
	if began {
		l.logger.Warn("beyond its plan, a rule refuses only keys that are certified to be above their limit",
			"rule", name, "since", now.Since, "times", now.Times)
	}
	if !now.Active && (began || was.Active) {
		l.logger.Info("a rule holds every key to its limit again", "rule", name, "from", now.Exact, "over_capacity_units", now.Units)
	}
}

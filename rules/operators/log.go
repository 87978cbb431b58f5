package operators

import (
	"log/slog"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Log logs once when a rule begins to spare keys, and once when it has ended. It is for one goroutine.
type Log struct {
	logger *slog.Logger
	last   map[string]sketchlimit.Spared // by rule
}

// NewLog returns a log that has told nothing yet.
func NewLog(logger *slog.Logger) *Log {
	return &Log{logger, map[string]sketchlimit.Spared{}}
}

// Look reads all rules, which takes milliseconds for each MiB, and logs what is new.
func (l *Log) Look(limits *rules.Rules) {
	for name, r := range limits.Counting() {
		l.tell(name, r.Stats().Spared)
	}
}

// tell logs what is new of a rule.
func (l *Log) tell(name string, now sketchlimit.Spared) {
	was := l.last[name]
	if now.Times < was.Times { // the rule has changed, and counts anew
		was = sketchlimit.Spared{}
	}
	l.last[name] = now
	began := now.Times > was.Times || now.Active && !was.Active
	if began {
		l.logger.Warn("beyond its plan, a rule refuses only keys that are certified to be above their limit",
			"rule", name, "since", now.Since, "times", now.Times)
	}
	if !now.Active && (began || was.Active) {
		l.logger.Info("a rule holds every key to its limit again", "rule", name, "from", now.Exact, "spared_units", now.Units)
	}
}

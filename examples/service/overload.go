package main

import (
	"log/slog"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// lookEvery is how often the log hears of rules that spare: Stats reads the whole of each.
const lookEvery = 10 * time.Second

// overload is what a rule has done beyond its plan, as the page gets it.
type overload struct {
	Active bool      `json:"active"`
	Since  time.Time `json:"since,omitzero"`
	Exact  time.Time `json:"exact,omitzero"`
	Times  uint64    `json:"times"`
	Units  uint64    `json:"units"`
}

// overloads logs once when a rule begins to spare keys, and once when it has ended.
type overloads struct {
	logger *slog.Logger
	last   map[string]sketchlimit.Spared // by rule
}

// look reads all rules.
func (o *overloads) look(s *service) {
	for name, r := range s.rules.Counting() {
		o.tell(name, r.Stats().Spared)
	}
}

// tell logs what is new of a rule.
func (o *overloads) tell(name string, now sketchlimit.Spared) {
	was := o.last[name]
	if now.Times < was.Times { // the rule has changed, and counts anew
		was = sketchlimit.Spared{}
	}
	o.last[name] = now
	began := now.Times > was.Times || now.Active && !was.Active
	if began {
		o.logger.Warn("beyond its plan, a rule refuses only keys that are certified to be above their limit",
			"rule", name, "since", now.Since, "times", now.Times)
	}
	if !now.Active && (began || was.Active) {
		o.logger.Info("a rule holds every key to its limit again", "rule", name, "from", now.Exact, "spared_units", now.Units)
	}
}

package main

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
)

// trial is an episode of a kind that has operations of its own. A finding is told with
// the last of them.
type trial struct {
	*rand.Rand
	b     *bench
	kind  string
	seed  uint64
	made  string // what is tried, for people
	log   []string
	found map[string]bool
	steps int
	over  bool // nothing more can be said of what is tried
}

// trials are the kinds with operations of their own, and what plays an episode. Those
// of rare take long, and come up as often as rates do.
var (
	trials = map[string]func(*trial){
		"budget": playBudget, "threads-budget": playBudgets, "edits": playEdits, "threads-edits": playEdited,
		"threads-clock": playClock, "threads-wall": playWall, "many": playMany, "process": playProcess,
	}
	single = []string{"budget", "edits", "threads-budget", "threads-edits", "threads-clock"}
	rare   = []string{"threads-wall", "many", "process"}
)

func (b *bench) trial(kind string, seed uint64) {
	t := &trial{Rand: newRand(seed), b: b, kind: kind, seed: seed, found: map[string]bool{}}
	func() {
		defer func() {
			if p := recover(); p != nil {
				t.fail("panic", "%v\n%s", p, debug.Stack())
			}
		}()
		trials[kind](t)
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	tally := b.tally[kind]
	tally.episodes++
	tally.steps += int64(t.steps)
	b.total += int64(t.steps)
}

// note adds a line to what is told of a finding.
func (t *trial) note(format string, args ...any) {
	const most = 40
	if t.log = append(t.log, "    "+fmt.Sprintf(format, args...)); len(t.log) > 2*most {
		t.log = append(t.log[:0], t.log[most:]...)
	}
}

// fail counts a finding, and tells the first of each rule.
func (t *trial) fail(rule, format string, args ...any) {
	if t.found[rule] {
		t.b.count(t.kind, rule)
		return
	}
	t.found[rule] = true
	text := fmt.Sprintf(format, args...) + "\n" + t.made
	if len(t.log) > 0 {
		text += "\n" + strings.Join(t.log, "\n")
	}
	t.b.report(t.kind, t.seed, violation{rule: rule, step: t.steps, text: text}, nil, nil)
}

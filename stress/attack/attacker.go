package main

import (
	"slices"

	"strconv"

	"github.com/sketchlimit/sketchlimit"
)

// attacker raises what the victim's cells hold, row by row.
//
// The victim reads the least of its cells, one in each row. So what it is told changes
// when its last row is reached: the key that was sent then shares that row's cell. This
// key is sent on, which takes the row out of the way, and the next change shows the
// next row.
type attacker struct {
	*target
	steps  []step  // what is told of a key, by the units it has used
	keys   []int   // units that were sent under each key of the attacker's own
	crowd  int     // keys that were sent to a token bucket
	shared []batch // keys of which one shares a cell with the victim
	most   int     // units that a key can have in cells
}

// step is a number of units from which on something else is told.
type step struct {
	units  int
	answer sketchlimit.Decision
}

// batch is keys, from the first one on, that are sent between two looks at the victim.
type batch int

const batchKeys = 8

func newAttacker(t *target) *attacker {
	a := &attacker{target: t}
	a.calibrate()
	return a
}

// calibrate finds out, under a key of the attacker's own, what a key is told that has
// used so many units.
func (a *attacker) calibrate() {
	for units := range a.limit + 1 {
		answer := a.look("calibrate")
		if units == 0 || answer != a.steps[len(a.steps)-1].answer {
			a.steps = append(a.steps, step{units, answer})
		}
		a.use("calibrate")
	}
}

// attack has the victim denied, and returns the queries that it took, or those that it
// may take at most.
func (a *attacker) attack() int {
	if a.plan.Algorithm == sketchlimit.TokenBucket {
		return a.crowdOut()
	}
	a.begin()
	for !a.spent() {
		answer := a.look(victim)
		if !answer.Allowed {
			return a.asked
		}
		level := a.next(answer)
		if level > a.most {
			a.fillTable()
			a.most = a.limit
			a.sendShared()
			continue
		}
		if b, ok := a.find(level, answer); ok {
			a.shared = append(a.shared, b)
			a.send(b, a.most)
		}
	}
	return a.queries
}

// begin forgets what the limiter has forgotten, and tries the keys that are known to
// share cells.
func (a *attacker) begin() {
	clear(a.keys)
	a.most = a.limit
	if a.plan.HeavyEntries > 0 {
		a.most = a.plan.PromoteAt - 1
	}
	a.sendShared()
	a.shared = nil // the next window has other cells
}

// crowdOut sends new keys, one unit each, until the victim of a token bucket finds no
// place in the table. What it is told does not help: it changes when all places in the
// victim's lines are taken, and not before.
func (a *attacker) crowdOut() int {
	for !a.spent() {
		for range batchKeys {
			a.crowd++
			a.use("own " + strconv.Itoa(a.crowd))
		}
		if !a.look(victim).Allowed {
			return a.asked
		}
	}
	return a.queries
}

// next returns the units at which the victim, who is told this, will be told something
// else.
func (a *attacker) next(answer sketchlimit.Decision) int {
	i := slices.IndexFunc(a.steps, func(s step) bool { return s.answer == answer })
	return a.steps[i+1].units
}

// find sends all keys up to so many units, new ones after the old ones, until the
// victim is told something else, and returns the keys that were sent last.
func (a *attacker) find(units int, answer sketchlimit.Decision) (b batch, ok bool) {
	for ; !a.spent(); b += batchKeys {
		a.send(b, units)
		if a.look(victim) != answer {
			return b, true
		}
	}
	return 0, false
}

// send sends each of a batch's keys up to so many units.
func (a *attacker) send(b batch, units int) {
	for key := int(b); key < int(b)+batchKeys; key++ {
		if key == len(a.keys) {
			a.keys = append(a.keys, 0)
		}
		for ; a.keys[key] < units && !a.spent(); a.keys[key]++ {
			a.use("own " + strconv.Itoa(key))
		}
	}
}

// sendShared sends the keys that share cells as far as cells count.
func (a *attacker) sendShared() {
	for _, b := range a.shared {
		a.send(b, a.most)
	}
}

// fillTable takes the places of the table of heavy keys, with keys of its own, so that
// others stay in cells. It sends 1.6 keys for a place: with sixteen places a bucket,
// that leaves room in one of seventy buckets.
func (a *attacker) fillTable() {
	for key := range a.plan.Shards * a.plan.HeavyEntries * 16 / 10 {
		for range 2 * a.plan.PromoteAt {
			if a.spent() {
				return
			}
			a.use("heavy " + strconv.Itoa(key))
		}
	}
}

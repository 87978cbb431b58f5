package main

import (
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// scenario is a limiter and what an attacker of it sees.
type scenario struct {
	algorithm   sketchlimit.Algorithm
	keys, limit int
	keyed       bool
	sees        view
	queries     int // of one attack, at most
}

// view is what an attacker sees of decisions.
type view int

const (
	all     view = iota // all that a limiter tells
	coarse              // the same, of a limiter with Config.Coarse
	denials             // whether a request is denied
)

// String returns what the table of results calls it.
func (s view) String() string {
	return [...]string{"exact answers", "coarse answers", "denials alone (a flood)"}[s]
}

// attacks attacks so many limiters of different seeds, each of them twice, and returns
// the queries until the victim was denied for the first time and for the second, or as
// many as there may be.
func (s *scenario) attacks(seeds int) (first, second []int, err error) {
	for seed := range seeds {
		t, err := s.target(uint64(seed) + 1)
		if err != nil {
			return nil, nil, err
		}
		a := newAttacker(t)
		first = append(first, a.attack())
		t.now, t.asked = t.now.Add(3*t.window), 0
		second = append(second, a.attack())
	}
	return first, second, nil
}

// median returns the middle of the queries of attacks.
func median(queries []int) int {
	slices.Sort(queries)
	return queries[len(queries)/2]
}

const victim = "192.0.2.1"

// target is a limiter as its attacker sees it.
type target struct {
	*scenario
	limiter *sketchlimit.Limiter
	plan    sketchlimit.Plan // which the attacker knows from the Config
	window  time.Duration
	now     time.Time
	asked   int // queries since the attack began
}

func (s *scenario) target(seed uint64) (*target, error) {
	c := sketchlimit.Config{
		Algorithm: s.algorithm, Limit: s.limit, Window: time.Minute, Keys: s.keys, Seed: seed, Coarse: s.sees == coarse,
	}
	if s.keyed {
		c.Hash = sketchlimit.MapHash()
	}
	l, err := sketchlimit.New(c)
	if err != nil {
		return nil, err
	}
	start := time.Unix(1_700_000_000, 0).Truncate(c.Window)
	return &target{scenario: s, limiter: l, plan: l.Plan(), window: c.Window, now: start}, nil
}

// spent reports whether the attacker may ask no more.
func (t *target) spent() bool { return t.asked >= t.queries }

// use sends a request for one unit.
func (t *target) use(key string) {
	t.asked++
	t.limiter.TakeAt(t.now, key, 1)
}

// look returns what the attacker sees of a key that would be asked about one unit.
func (t *target) look(key string) sketchlimit.Decision {
	t.asked++
	d := t.limiter.Do(sketchlimit.Request{Time: t.now, Key: key, Peek: true})
	if t.sees == denials {
		return sketchlimit.Decision{Allowed: d.Allowed}
	}
	return d
}

package main

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/tune"
)

// scenario is traffic, limiters that it is sent through, and what a prediction is made from.
type scenario struct {
	requests []accuracy.Request // for one unit each, in the order of their times; shared with other scenarios
	window   time.Duration
	goal     tune.Goal
	plan     sketchlimit.Plan
	sample   []int // requests of each key in the window that the prediction takes for all
	counts   func(number int64) bool
}

// outcome is what replays measure, and what is predicted. Rates are in the order of their names.
type outcome struct {
	measured, predicted [len(rates)]float64
	without             [len(rates)]int // seeds without any error
	requests            int             // of innocent keys
	units               int             // that the exact algorithm admits
	seeds               int
	keys                float64 // wronged by a limiter
}

// floored is what was measured, or half an event where there was none.
func (o *outcome) floored(i int) float64 {
	all := [...]int{o.requests, o.units}[i]
	return max(o.measured[i], 0.5/float64(all*o.seeds))
}

func (s *scenario) config() sketchlimit.Config {
	return sketchlimit.Config{Limit: s.goal.Limit, Window: s.window, Algorithm: s.goal.Algorithm, Plan: &s.plan}
}

func (s *scenario) memory() int {
	_, bytes, err := s.config().Size()
	return must(bytes, err)
}

func (s *scenario) traffic() tune.Traffic {
	return tune.Traffic{Keys: len(s.sample), Sample: s.sample, Even: true, Steady: true} // no more than the histogram says
}

// seeds are ten or, of short traces, up to forty.
func (s *scenario) seeds() int { return min(max(4_000_000/len(s.requests), 10), 40) }

// judge measures and predicts.
func (s *scenario) judge() outcome {
	o := s.measure(s.seeds())
	o.predicted = s.predict(1)
	return o
}

// judges applies each change to the scenario as it was. Most leave the prediction what it was.
func (s *scenario) judges(was outcome, changes []change) (all []outcome) {
	for _, c := range changes {
		changed := *s
		c.apply(&changed)
		o := changed.measure(changed.seeds())
		if o.predicted = was.predicted; changed.plan != s.plan || !slices.Equal(changed.sample, s.sample) {
			o.predicted = changed.predict(1)
		}
		all = append(all, o)
	}
	return all
}

func (s *scenario) predict(load float64) [len(rates)]float64 {
	e := must(tune.PredictAt(s.traffic(), s.goal, s.plan, load))
	return [...]float64{e.FalseDenialRate, e.WithheldShare}
}

// loadOf returns the multiple of the sample at which the prediction is a rate, to 3 %.
func (s *scenario) loadOf(i int, rate float64) float64 {
	low, high := 0.125, 8.
	for high/low > 1.03 {
		if mid := math.Sqrt(low * high); s.predict(mid)[i] > rate {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Sqrt(low * high)
}

// measure returns the means of replays with so many seeds.
func (s *scenario) measure(seeds int) outcome {
	fates, o := s.fates()
	o.seeds = seeds
	if o.requests == 0 {
		return o
	}
	replays := make([]replayed, seeds)
	var all sync.WaitGroup
	for i := range replays {
		all.Go(func() { replays[i] = s.replay(fates, uint64(i+1)*0x9e3779b97f4a7c15) })
	}
	all.Wait()
	for _, r := range replays {
		o.keys += float64(r.keys) / float64(seeds)
		for i, rate := range [...]float64{float64(r.denied) / float64(o.requests), 1 - float64(r.admitted)/float64(o.units)} {
			o.measured[i] += rate / float64(seeds)
			if rate == 0 {
				o.without[i]++
			}
		}
	}
	return o
}

// fate is what the exact algorithm makes of a request.
type fate uint8

const (
	counted  fate = 1 << iota
	innocent      // admitted, of a key below half of its limit
)

// fates asks the exact algorithm, and counts.
func (s *scenario) fates() (fates []fate, o outcome) {
	c := s.config()
	oracle := must(exact.Of(c))
	fates = make([]fate, len(s.requests))
	for i, r := range s.requests {
		d := oracle.TakeAt(r.Time, r.Key, 1)
		if s.counts != nil && !s.counts(s.number(r)) {
			continue
		}
		fates[i] = counted
		used := c.Limit - d.Remaining
		if d.Allowed {
			used--
			o.units++
		}
		if 2*used < c.Limit {
			o.requests++
			if d.Allowed {
				fates[i] |= innocent
			}
		}
	}
	return fates, o
}

// replayed is what a limiter did.
type replayed struct{ denied, keys, admitted int }

// replay sends the requests through a limiter.
func (s *scenario) replay(fates []fate, seed uint64) (did replayed) {
	c := s.config()
	c.Seed = seed
	l := must(sketchlimit.New(c))
	defer l.Close()
	names := map[string]bool{}
	for i, r := range s.requests {
		switch allowed := l.TakeAt(r.Time, r.Key, 1).Allowed; {
		case allowed && fates[i]&counted != 0:
			did.admitted++
		case !allowed && fates[i]&innocent != 0:
			did.denied++
			names[r.Key] = true
		}
	}
	did.keys = len(names)
	return did
}

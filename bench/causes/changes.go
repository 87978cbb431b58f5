package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
)

// number returns that of a request's window.
func (s *scenario) number(r accuracy.Request) int64 { return r.Time.UnixNano() / int64(s.window) }

// windows returns the requests by window, without empty ones.
func (s *scenario) windows() (all [][]accuracy.Request) {
	from := 0
	for i, r := range s.requests {
		if s.number(r) != s.number(s.requests[from]) {
			all = append(all, s.requests[from:i])
			from = i
		}
	}
	return append(all, s.requests[from:])
}

// histogram returns the requests of each key, in ascending order.
func histogram(window []accuracy.Request) (counts []int) {
	byKey := map[string]int{}
	for _, r := range window {
		byKey[r.Key]++
	}
	for _, n := range byKey {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts
}

// fullest returns the first window of those that have the most of something.
func (s *scenario) fullest(of func(counts []int) int) (window []accuracy.Request) {
	most := -1
	for _, w := range s.windows() {
		if n := of(histogram(w)); n > most {
			most, window = n, w
		}
	}
	return window
}

func keys(counts []int) int { return len(counts) }

// heaviestWindow predicts from the window with the most keys that ask for half of the limit.
func (s *scenario) heaviestWindow() {
	s.sample = histogram(s.fullest(func(counts []int) (heavy int) {
		for _, n := range counts {
			if 2*n >= s.goal.Limit {
				heavy++
			}
		}
		return heavy
	}))
}

// oneShard has the same memory in one shard.
func (s *scenario) oneShard() {
	p := &s.plan
	p.Width, p.HeavyEntries, p.BloomBytes, p.Shards = p.Width*p.Shards, p.HeavyEntries*p.Shards, p.BloomBytes*p.Shards, 1
}

// largeTable has buckets that do not run over, beside the same cells.
func (s *scenario) largeTable() { s.plan.HeavyEntries *= 16 }

// noTable counts heavy keys in cells like all others.
func (s *scenario) noTable() { s.plan.HeavyEntries = 0 }

// oneGeneration has a fixed window.
func (s *scenario) oneGeneration() {
	s.goal.Algorithm, s.plan.Algorithm = sketchlimit.FixedWindow, sketchlimit.FixedWindow
}

// noRetries leaves out what the exact algorithm denies.
func (s *scenario) noRetries() {
	oracle := must(exact.Of(s.config()))
	s.requests = slices.DeleteFunc(slices.Clone(s.requests), func(r accuracy.Request) bool {
		return !oracle.TakeAt(r.Time, r.Key, 1).Allowed
	})
	s.sample = histogram(s.fullest(keys))
}

// settled does not count the first window of a new limiter.
func (s *scenario) settled() {
	first := s.number(s.requests[0])
	s.counts = func(number int64) bool { return number > first }
}

// rewrite changes the requests of each window.
func (s *scenario) rewrite(change func(random *rand.Rand, number int64, window []accuracy.Request)) {
	random := rand.New(rand.NewPCG(1, 0))
	old := s.windows()
	s.requests = nil
	for _, w := range old {
		w = slices.Clone(w)
		change(random, s.number(w[0]), w)
		s.requests = append(s.requests, w...)
	}
}

// shuffled gives the times of a window to other keys of it: no key's requests come together.
func (s *scenario) shuffled() {
	s.rewrite(func(random *rand.Rand, _ int64, w []accuracy.Request) {
		random.Shuffle(len(w), func(i, j int) { w[i].Key, w[j].Key = w[j].Key, w[i].Key })
	})
}

// even draws the times within a window: no requests come together.
func (s *scenario) even() {
	s.rewrite(func(random *rand.Rand, number int64, w []accuracy.Request) {
		for i := range w {
			w[i].Time = time.Unix(0, number*int64(s.window)+random.Int64N(int64(s.window)))
		}
		slices.SortFunc(w, func(a, b accuracy.Request) int { return a.Time.Compare(b.Time) })
	})
}

// newKeys gives each window keys of its own.
func (s *scenario) newKeys() {
	s.rewrite(func(_ *rand.Rand, number int64, w []accuracy.Request) {
		for i := range w {
			w[i].Key = fmt.Sprint(w[i].Key, " ", number)
		}
	})
}

// twins lets each window follow a copy of itself, after a pause. The copy does not count.
func (s *scenario) twins() { s.pairs("") }

// strangers is twins with other keys in the copy.
func (s *scenario) strangers() { s.pairs(" before") }

func (s *scenario) pairs(suffix string) {
	const apart = 4 // windows from pair to pair
	old := s.windows()
	s.requests = nil
	for i, w := range old {
		for second := range 2 {
			later := time.Duration(int64(apart*i+second)-s.number(w[0])) * s.window
			for _, r := range w {
				r.Time = r.Time.Add(later)
				if second == 0 {
					r.Key += suffix
				}
				s.requests = append(s.requests, r)
			}
		}
	}
	s.counts = func(number int64) bool { return number%apart == 1 }
}

// fullestOnly is twins of the window that the prediction takes for all.
func (s *scenario) fullestOnly() {
	s.requests = s.fullest(keys)
	s.twins()
}

package engine

import (
	"math"
	"sync/atomic"
)

// lately is what admitted requests of innocent keys were like, by one in lookEvery of them, and how often others of these
// keys were denied. The last some hundred that were looked at count most.
type lately struct {
	requests, units atomic.Uint64
	wronged         atomic.Uint64 // requests of innocent keys with an entry, denied meanwhile; all of them
	used            histogram     // what the keys read
	fresh           histogram     // what strangers read at the same time, beside those that read anything
}

// lookEvery is the requests of which one is looked at, on average.
const lookEvery = 64

// histogram counts requests of sixteen kinds, a byte for each. Fifteen kinds are those of keys without an entry, by the
// fifteenth of their quota that they read.
type histogram [2]atomic.Uint64

const (
	kinds   = 16
	uses    = 15
	byEntry = 15 // keys with an entry
)

// add counts one more, or nothing if another goroutine does at the same moment, and tells whether the byte is full.
func (g *histogram) add(kind int) (full bool) {
	word, place := &g[kind/8], kind%8*8
	old := word.Load()
	return old>>place&0xff == 0xff || word.CompareAndSwap(old, old+1<<place) && (old>>place+1)&0xff == 0xff
}

func (g *histogram) count(kind int) float64 {
	return float64(g[kind/8].Load() >> (kind % 8 * 8) & 0xff)
}

// fade makes all that was counted so far count half. What others add meanwhile may be lost.
func (l *lately) fade() {
	for _, n := range []*atomic.Uint64{&l.requests, &l.units, &l.wronged} {
		n.Store(n.Load() / 2)
	}
	for _, g := range []*histogram{&l.used, &l.fresh} {
		for i := range g {
			g[i].Store(g[i].Load() >> 1 & 0x7f7f7f7f7f7f7f7f)
		}
	}
}

// innocent tells whether a key that has used so many units of a limit is an innocent one.
func innocent(used, limit int64) bool { return 2*used < limit }

// useOf returns the kind of a key that reads so many units of a quota.
func useOf(units, quota int64) int { return min(int(float64(units)*uses/float64(quota)), uses-1) }

// unitsOf returns the units that a kind stands for: the fewest, and half of what may come to them.
func unitsOf(use int, quota int64) float64 {
	return math.Ceil(float64(use)*float64(quota)/uses) + float64(quota/(2*uses))
}

// admit takes down a request for n units, and what a stranger reads beside it, if that is a kind. When a byte is full, all
// stripes fade: those that goroutines which have ended have left behind as well, and those whose stacks have moved.
func (c *Counter) admit(n int64, kind, stranger int) {
	l := &c.here().lately
	l.units.Add(uint64(n))
	l.requests.Add(1)
	full := l.used.add(kind)
	if stranger != noKind {
		full = l.fresh.add(stranger) || full
	}
	if full {
		for i := range c {
			c[i].lately.fade()
		}
	}
}

const noKind = -1

// recent is the sum of what all stripes have taken down.
type recent struct {
	cost    float64 // mean units of a request
	wronged float64 // share of the requests of innocent keys that were denied although they have an entry
	used    [kinds]float64
	fresh   [kinds]float64
}

// lately returns what requests have been like. Where none has been seen, they are taken to be fresh ones for one unit.
func (c *Counter) lately() recent {
	var requests, units, wronged uint64
	r, sum := recent{cost: 1}, 0.0
	for i := range c {
		l := &c[i].lately
		requests, units, wronged = requests+l.requests.Load(), units+l.units.Load(), wronged+l.wronged.Load()
		for kind := range kinds {
			r.used[kind] += l.used.count(kind)
			r.fresh[kind] += l.fresh.count(kind)
			sum += l.used.count(kind)
		}
	}
	if sum == 0 {
		r.used[0], sum = 1, 1
	}
	for kind := range r.used {
		r.used[kind] /= sum
	}
	if requests > 0 {
		r.cost = max(1, float64(units)/float64(requests))
	}
	if wronged > 0 {
		r.wronged = float64(wronged) / float64(wronged+lookEvery*requests)
	}
	return r
}

// asked returns what fresh keys would have to ask for so as to be like the keys of each kind, if these ask for n units of a
// quota: that, and what they have used themselves. The first kind is those that read nothing. It also returns their
// shares of all requests, as many as there are.
//
// A key reads what it has used and others' units, a stranger others' units alone. So the mean of what keys have used is
// the difference of two means, and its variance that of two variances.
func (r *recent) asked(n, quota int64) (units [kinds]int64, weights [kinds]float64, of int) {
	mean, variance := moments(r.used[:uses], quota)
	others, ofOthers := moments(r.fresh[:uses], quota)
	spread := 0.0
	if variance > ofOthers {
		spread = math.Sqrt(1 - ofOthers/variance)
	}
	units[0], weights[0], of = min(n, quota), r.used[0], 1
	for use := 1; use < uses; use++ {
		if r.used[use] > 0 {
			own := max(0, mean-others+(unitsOf(use, quota)-mean)*spread)
			units[of], weights[of] = min(n+int64(own), quota), r.used[use]
			of++
		}
	}
	return units, weights, of
}

// moments returns the mean and the variance of units by their kind.
func moments(weights []float64, quota int64) (mean, variance float64) {
	sum, squares := 0.0, 0.0
	for use, w := range weights {
		u := unitsOf(use, quota)
		sum, mean, squares = sum+w, mean+w*u, squares+w*u*u
	}
	if sum == 0 {
		return 0, 0
	}
	mean /= sum
	return mean, squares/sum - mean*mean
}

package engine

import (
	"math"
	"sync/atomic"

	"github.com/sketchlimit/sketchlimit/internal/striped"
)

// lately is what admitted requests of innocent keys were like, by one in lookEvery of them, and how often others of these
// keys were denied. The last thousand that were looked at count most.
//
// It is words in the lines of half a counter: which half, the key's hash says, since the sum of both hangs on it by
// what fading rounds, and the same keys and times are to give the same decisions.
type lately struct {
	*striped.Counter
	half int
}

const (
	lookEvery = 64                 // requests of which one is looked at, on average
	mostLooks = 512                // in one half, before all count half
	mostMet   = 16                 // in one half, of a grade, before all count half
	halves    = 0x7fff7fff7fff7fff // the bits that are left of the counts of a histogram's word, each shifted by one
)

// Its words: sums, and then histograms of requests by their kind, with 16 bits for each.
const (
	looks       = iota
	requests    // of innocent keys that were looked at
	units       // of them
	wronged     // requests of innocent keys with an entry, denied meanwhile; all of them
	read        // what keys read with their request
	low         = read + kinds/4
	fresh       = low + kinds/4 // what strangers read at the same time
	latelyWords = fresh + kinds/4
	met         = latelyWords      // how many generations that count in full have met the key before
	newest      = met + meetings/4 // units of a request, the sum over about the last newestLooks: it does not fade
)

// newestLooks are few, so that loads of other costs are noticed at once.
const newestLooks = 16

// Kinds are grades of what is read, and two others.
const (
	kinds    = grades + 2
	newcomer = grades     // keys that no doorkeeper knows, where these guard
	byEntry  = grades + 1 // keys with an entry
	noKind   = -1

	meetingParts = 6                // of generations that have met a key, but for the current one
	meetings     = 2 * meetingParts // and whether that has

	passesNow, passesOldest = newcomer, byEntry // kinds of strangers
)

func (l lately) word(i int) *atomic.Uint64 {
	return l.Word(l.half*striped.Lines/2+i/striped.LineWords, i%striped.LineWords)
}

func (l lately) add(histogram, kind int) { l.word(histogram + kind/4).Add(1 << (kind % 4 * 16)) }

func (l lately) count(histogram, kind int) float64 {
	return float64(l.word(histogram+kind/4).Load() >> (kind % 4 * 16) & 0xffff)
}

// fade makes all that was counted so far count half. What others add meanwhile may be lost. However many looks there
// were, the next time to fade is as far as ever. The mean cost stays what it is: rounded up, it would be that of dearer
// requests than there have been.
func (l lately) fade() {
	n, of := l.word(requests).Load(), l.word(units).Load()
	for i := range latelyWords {
		half := l.word(i).Load() >> 1
		switch {
		case i == looks:
			half = min(half, mostLooks/2)
		case i == units && n > 0:
			half = of * (n >> 1) / n
		case i >= read:
			half &= halves
		}
		l.word(i).Store(half)
	}
}

// meet takes down a grade of how many generations have met a key. What was taken down before fades fast: how many they are
// changes from each generation to the next.
func (l lately) meet(grade int) {
	l.add(met, grade)
	if l.count(met, grade) < mostMet {
		return
	}
	for i := range meetings / 4 {
		l.word(met + i).Store(l.word(met+i).Load() >> 1 & halves)
	}
}

// innocent tells whether a key that has used so many units of a limit is an innocent one.
func innocent(used, limit int64) bool { return 2*used < limit }

// sight is what is seen of an admitted request.
type sight struct {
	n        int64 // units, of an innocent key; 0 of others
	kind     int   // what its key reads then, or that it has an entry
	stranger int   // what a stranger reads that would be admitted, or noKind
	denied   int   // another one that would not be, or noKind
	passes   known // doorkeepers that a stranger passes, where these guard
	low      bool  // its limit is a lower one
	met      int   // grade of generations that have met the key, or noKind
}

// admit takes down a request of a key, by its hash. In the end both halves fade.
func admit(c *striped.Counter, h uint64, s sight) {
	l := lately{c, int(h & 1)}
	if s.n > 0 {
		l.word(requests).Add(1)
		l.word(units).Add(uint64(s.n))
		sum := l.word(newest).Load() // less a part that is rounded up, so that it does not stay high
		l.word(newest).Store(sum - (sum+newestLooks-1)/newestLooks + uint64(s.n))
	}
	if s.met != noKind {
		l.meet(s.met)
	}
	if s.low {
		l.add(low, s.kind)
	} else {
		l.add(read, s.kind)
	}
	for _, kind := range [...]int{s.stranger, s.denied} {
		if kind != noKind {
			l.add(fresh, kind)
		}
	}
	if s.passes&nowKnown != 0 {
		l.add(fresh, passesNow)
	}
	if s.passes&oldestKnown != 0 {
		l.add(fresh, passesOldest)
	}
	if l.word(looks).Add(1)%mostLooks == 0 { // or a multiple, where who was to fade them has not come to it yet
		for half := range 2 {
			lately{c, half}.fade()
		}
	}
}

// wrong takes down that a request of an innocent key with an entry, by its hash, was denied.
func wrong(c *striped.Counter, h uint64) { lately{c, int(h & 1)}.word(wronged).Add(1) }

// recent is the sum of what all lines have taken down.
type recent struct {
	cost             float64 // mean units of a request
	newest           float64 // and of the newest ones
	requests         float64 // of innocent keys, as far as one stranger tells
	wronged          float64 // of which each stands for lookEvery
	read, low, fresh [kinds]float64
	met              [meetings]float64
}

// recentOf returns what requests have been like. Where none has been seen, they are taken to be for one unit.
func recentOf(c *striped.Counter) (r recent) {
	sums := [read]float64{}
	var of uint64 // units of newestLooks in each half
	for half := range 2 {
		l := lately{c, half}
		for i := range sums {
			sums[i] += float64(l.word(i).Load())
		}
		of += l.word(newest).Load()
		for kind := range kinds {
			r.read[kind] += l.count(read, kind)
			r.low[kind] += l.count(low, kind)
			r.fresh[kind] += l.count(fresh, kind)
		}
		for grade := range meetings {
			r.met[grade] += l.count(met, grade)
		}
	}
	r.cost = 1
	if sums[requests] > 0 {
		r.cost = max(1, sums[units]/sums[requests])
	}
	r.newest = float64(of) / (2 * newestLooks)
	r.requests, r.wronged = sums[requests], sums[wronged]/lookEvery
	return r
}

// mean returns the units of a usual request, rounded up.
func (r *recent) mean() int64 { return int64(math.Ceil(r.cost)) }

// acquaintances returns which generations have met keys that are known by k.
func (r *recent) acquaintances(l *scale, k known) (all []acquaintance) {
	sum := 0.0
	for _, n := range r.met {
		sum += n
	}
	if k&nowKnown == 0 || sum == 0 {
		return []acquaintance{{1, l.metIn(k, meetings-1)}}
	}
	for grade, n := range r.met {
		if n > 0 {
			all = append(all, acquaintance{n / sum, l.metIn(k, grade)})
		}
	}
	return all
}

// acquaintance is which generations have met keys, by age, and a share of keys.
type acquaintance struct {
	share float64
	met   []bool
}

package rules

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// former is a limiter that a rule had before its limit or its size changed, while its counts matter. Nothing is counted
// in it any more.
type former struct {
	counter counter
	limiter *sketchlimit.Limiter
	bytes   int
	until   time.Time // when nothing of it is left
}

// used returns the units in use of a key, by what a limiter of the counter says to one who looks.
func (c *counter) used(d sketchlimit.Decision) float64 {
	if c.algorithm == sketchlimit.TokenBucket { // in which a part of a unit may have flowed back
		return float64(d.ResetAfter) / float64(c.window) * float64(c.limit)
	}
	return float64(c.limit - d.Remaining)
}

// lasts returns how long the counts of a limiter matter that counts no more.
func (c *counter) lasts() time.Duration {
	switch {
	case c.algorithm == sketchlimit.SlidingWindow:
		return 2 * min(c.window, maxWindow/2)
	case c.algorithm == sketchlimit.TokenBucket && c.burst > c.limit:
		return time.Duration(min(float64(c.burst)/float64(c.limit)*float64(c.window), float64(maxWindow)))
	}
	return c.window
}

// lasts is that of the rule's counter. What was charged to a bucket may be a debt as deep as it is.
func (r *Rule) lasts() time.Duration {
	span := r.counter.lasts()
	if r.Charge && r.Algorithm == sketchlimit.TokenBucket {
		span = 2 * min(span, maxWindow/2)
	}
	return span
}

// carries tells whether counts of a rule can be carried on by one of another limit or size.
func (c *counter) carries(next *Rule) bool {
	return next.Unlimited || next.Limit == 0 || c.window == next.Window && c.algorithm == next.Algorithm
}

// succeed gives the rule what it carries on of the one that stood in its place: its limiter, if that is the same, or
// else the former ones. If again, one of them may become its limiter that is what the rule asks for, if it has been so before.
func (r *Rule) succeed(before *Rule, again bool, now time.Time) {
	r.tally = before.tally
	all := before.live(now)
	if before.limiter != nil {
		all = append(all, former{before.counter, before.limiter, before.bytes, now.Add(before.lasts())})
	}
	var kept []former
	for _, f := range all {
		switch {
		case f.counter == r.counter && (again || f.limiter == before.limiter):
			r.limiter = f.limiter
		case f.counter.carries(r):
			kept = append(kept, f)
		}
	}
	if kept != nil {
		r.formers.Store(&kept)
	}
}

// live returns the former limiters that matter at a time.
func (r *Rule) live(now time.Time) (all []former) {
	if formers := r.formers.Load(); formers != nil {
		for _, f := range *formers {
			if now.Before(f.until) {
				all = append(all, f)
			}
		}
	}
	return all
}

// formerBytes returns the memory of former limiters.
func (r *Rule) formerBytes() (bytes int) {
	if formers := r.formers.Load(); formers != nil {
		for _, f := range *formers {
			bytes += f.bytes
		}
	}
	return bytes
}

// forget lets go of the former limiter of all rules that matters for the shortest time; false if there is none. So limits can
// change as often as they must: keys that have come since have carried on their counts.
func (s *set) forget() bool {
	var rule *Rule
	var which int
	var soonest time.Time
	for r := range s.counting() {
		if formers := r.formers.Load(); formers != nil {
			for i, f := range *formers {
				if rule == nil || f.until.Before(soonest) {
					rule, which, soonest = r, i, f.until
				}
			}
		}
	}
	if rule == nil {
		return false
	}
	if kept := slices.Delete(slices.Clone(*rule.formers.Load()), which, which+1); len(kept) > 0 {
		rule.formers.Store(&kept)
	} else {
		rule.formers.Store(nil)
	}
	return true
}

// carry charges a key's counter with what former limiters have counted of it, as far as it does not have that yet. From
// then on it has all that matters: it counts what they have and what has come since.
//
// All that a sliding window has counted is charged now, which may take until the window's end to leave it.
func (c *counters) carry(i int) {
	rule := c.statuses[i].Rule
	formers := rule.formers.Load()
	if formers == nil {
		return
	}
	used, matter := 0.0, false
	look := sketchlimit.Request{Time: c.now, Bytes: c.key(i), Peek: true}
	for _, f := range *formers {
		if c.now.Before(f.until) {
			matter = true
			used = max(used, f.counter.used(f.limiter.Do(look)))
		}
	}
	if !matter {
		rule.formers.CompareAndSwap(formers, nil)
	}
	if used == 0 {
		return
	}
	m := c.rules.carrying.of(look.Bytes) // or else two requests might charge it twice
	m.Lock()
	defer m.Unlock()
	d := rule.limiter.Do(look)
	const rounding = 1e-6 // of a unit, of the times of buckets
	lacks := math.Ceil(used - rule.counter.used(d) - rounding)
	look.Peek = false
	switch {
	case lacks > 0 && rule.Charge: // which may be a debt
		look.N = int(lacks)
		rule.limiter.DoCharge(look)
	case lacks > 0 && d.Remaining > 0:
		look.N = int(min(lacks, float64(d.Remaining)))
		rule.limiter.Do(look)
	}
}

// stripes are locks of keys.
type stripes struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

// of returns the lock of a key, which others share.
func (s *stripes) of(key []byte) *sync.Mutex {
	return &s.locks[maphash.Bytes(s.seed, key)%uint64(len(s.locks))]
}

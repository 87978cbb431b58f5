package rules

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// predecessor is a limiter that a rule had before its limit or its size changed, while
// its counts matter. Nothing is counted in it any more.
type predecessor struct {
	counter counter
	origin  origin
	limiter *sketchlimit.Limiter
	bytes   int
	until   time.Time // when nothing of it is left
}

// used returns the units in use of a key, by what a limiter of the counter says to one
// who looks.
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

// lasts is that of the rule's counter. What was charged to a bucket may be a debt as
// deep as it is.
func (r *Rule) lasts() time.Duration {
	span := r.counter.lasts()
	if r.Charge && r.Algorithm == sketchlimit.TokenBucket {
		span = 2 * min(span, maxWindow/2)
	}
	return span
}

// carries reports whether counts of a rule can be carried on by one of another limit or
// size.
func (c *counter) carries(next *Rule) bool {
	return next.Unlimited || next.Limit == 0 || c.window == next.Window && c.algorithm == next.Algorithm && c.months == next.Months
}

// succeed gives the rule what it carries on of the one that stood in its place: its
// limiter, if that is the same, or else the former ones. If again, one of them may
// become its limiter that is what the rule asks for, if it has been so before; or the
// rule goes on with the latest of them that fits, under its own limit, see inherit.
func (r *Rule) succeed(before *Rule, again bool, now time.Time) {
	r.tally = before.tally
	all := before.live(now)
	if before.limiter != nil {
		all = append(all, before.asPredecessor(now))
	}
	var kept []predecessor
	for _, f := range all {
		switch {
		case f.counter == r.counter && (again || f.limiter == before.limiter) && !(before.renews && f.limiter == before.limiter):
			r.limiter, r.origin, r.bytes = f.limiter, f.origin, f.bytes
		case f.counter.carries(r):
			kept = append(kept, f)
		default:
			r.lost++
		}
	}
	r.keep(kept)
	if !again || r.limiter != nil || before.renews {
		return
	}
	for _, f := range slices.Backward(kept) {
		if r.fits(&f) {
			r.could = &f
			if len(kept) > 1 || r.near(&f) {
				r.inherit()
			}
			return
		}
	}
}

// asPredecessor returns the rule's limiter as one that counts no more.
func (r *Rule) asPredecessor(now time.Time) predecessor {
	return predecessor{r.counter, r.origin, r.limiter, r.bytes, now.Add(r.lasts())}
}

// fits reports whether the limiter of f can go on with its counts under the rule's limit.
func (r *Rule) fits(f *predecessor) bool {
	as := f.counter
	as.limit, as.burst = r.counter.limit, r.counter.burst
	if r.Limit == 0 || as != r.counter {
		return false
	}
	reach := max(f.counter.limit, f.counter.burst, f.origin.reach)
	if r.Algorithm == sketchlimit.TokenBucket {
		reach = max(f.counter.burst, f.origin.reach)
		if reach > 2*max(r.Limit, r.Burst) { // their times do not reach as far
			return false
		}
	}
	plan := f.limiter.Plan()
	plan.Limit = 0 // it was for another one
	for _, limit := range []int{r.Limit, max(r.Limit, reach)} {
		c := sketchlimit.Config{Limit: limit, Window: r.Window, Algorithm: r.Algorithm, Burst: r.Burst, Plan: &plan}
		if _, _, err := c.Size(); err != nil {
			return false
		}
	}
	return r.Overload == sketchlimit.Deny
}

// near reports whether a shape for the limit of f is good for the rule's.
func (r *Rule) near(f *predecessor) bool {
	a, b := uint64(r.Limit), uint64(f.counter.limit)
	return a <= 2*b && b <= 2*a
}

// inherit makes the rule go on with the limiter that it could, which then is no former
// one. False if there is none.
func (r *Rule) inherit() bool {
	if r.could == nil {
		return false
	}
	r.heirOf, r.bytes, r.could = r.could, r.could.bytes, nil
	r.keep(slices.DeleteFunc(slices.Clone(*r.formers.Load()), func(f predecessor) bool { return f.limiter == r.heirOf.limiter }))
	return true
}

// takeOver lets the limiter that the rule inherits count under the rule's limit from
// now on. Former windows are looked at under the highest limit that they have counted
// under: a lower one would hide what is above.
func (r *Rule) takeOver(now time.Time) (err error) {
	if formers := r.formers.Load(); formers != nil {
		for i := range *formers {
			f := &(*formers)[i]
			if f.counter.algorithm == sketchlimit.TokenBucket || f.origin.reach <= f.counter.limit {
				continue
			}
			if f.limiter, err = f.limiter.WithLimit(r.at(now), f.origin.reach, 0); err != nil {
				return fmt.Errorf("%s: %w", r.Line, err)
			}
			f.counter.limit = f.origin.reach
		}
	}
	before := r.heirOf
	if before == nil {
		return nil
	}
	r.heirOf, r.origin = nil, before.origin
	if r.limiter, err = before.limiter.WithLimit(r.at(now), r.Limit, r.Burst); err != nil { // it has none, and the other stays beside
		r.origin = origin{}
		r.keep(append(r.live(now), *before))
		return nil
	}
	if o := &r.origin; o.since.IsZero() {
		c := &before.counter
		*o = origin{limit: c.limit, burst: c.burst, reach: cmp.Or(c.burst, c.limit), since: now}
	}
	r.origin.reach = max(r.origin.reach, cmp.Or(r.Burst, r.Limit))
	return nil
}

// due reports whether the rule's limiter has had the shape that is for another limit
// for two windows.
func (r *Rule) due(now time.Time) bool {
	if r.origin.since.IsZero() || now.Sub(r.origin.since)/2 < r.Window {
		return false
	}
	own, _, err := r.config().Size()
	plan := r.limiter.Plan()
	own.Keys, own.FalseDenialRate = plan.Keys, plan.FalseDenialRate // which are not its shape
	return err == nil && own != plan
}

// keep makes these the former limiters.
func (r *Rule) keep(formers []predecessor) {
	if len(formers) > 0 {
		r.formers.Store(&formers)
	} else {
		r.formers.Store(nil)
	}
}

// live returns the former limiters that matter at a time.
func (r *Rule) live(now time.Time) (all []predecessor) {
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

// forget lets go of the former limiter of all rules that matters for the shortest time;
// false if there is none. So limits can change as often as they must. Keys that have
// come since have carried on their counts; the others have a fresh quota, so it is
// counted.
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
	rule.lost++
	rule.keep(slices.Delete(slices.Clone(*rule.formers.Load()), which, which+1))
	return true
}

// inherit makes one more rule go on with the limiter that it could, rather than keep
// that beside its own; false if there is none.
func (s *set) inherit() bool {
	for _, rule := range s.rules {
		if rule.inherit() {
			return true
		}
	}
	return false
}

// carry charges a key's counter with what former limiters have counted of it, as far as
// it does not have that yet. From then on it has all that matters: it counts what they
// have and what has come since.
//
// All that a sliding window has counted is charged now, which may take until the
// window's end to leave it.
func (c *counters) carry(i int) {
	rule := c.statuses[i].Rule
	formers := rule.formers.Load()
	if formers == nil {
		return
	}
	used, matter := 0.0, false
	look := sketchlimit.Request{Time: rule.at(c.now), Bytes: c.key(i), Peek: true}
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

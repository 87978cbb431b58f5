package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// A rule that leaves values open and states no size has a share of Options.SharedBytes.
// Shares follow what rules need: Adapt replaces limiters by larger and smaller ones, as
// a reload with other sizes does, so what was counted stays counted.

// held is the part of SharedBytes that shares begin with. The rest is for limiters that
// take over from others, which stay until their counts have left the window.
func held(budget int) int { return budget / 4 * 3 }

// share is what a rule has of SharedBytes.
type share struct {
	bytes  int     // at most
	keys   float64 // distinct, in a window, lately at most
	window int64   // in which that was looked at
	units  uint64  // admitted and denied until then
}

// split gives rules their shares: those they have, or for new ones a part of the rest,
// by what DefaultKeys would take.
func (s *set) split(budget int, shares map[place]*share) (map[place]*share, error) {
	next := map[place]*share{}
	if budget == 0 {
		return next, nil
	}
	var joining []*Rule
	free, all, new := held(budget), 0, 0
	for _, rule := range s.rules {
		if !rule.Shared {
			continue
		}
		all += rule.bytes
		if have := shares[rule.counter.place]; have != nil {
			next[rule.counter.place] = have
			free -= have.bytes
			continue
		}
		joining, new = append(joining, rule), new+rule.bytes
	}
	for _, rule := range joining {
		part := float64(rule.bytes) * min(float64(held(budget))/float64(all), float64(max(free, 0))/float64(new))
		next[rule.counter.place] = &share{bytes: int(part)}
	}
	return next, s.resize(budget, next)
}

// resize sizes rules by their shares.
func (s *set) resize(budget int, shares map[place]*share) error {
	total := 0
	for _, rule := range s.rules {
		if !rule.Shared {
			continue
		}
		have := shares[rule.counter.place]
		have.bytes = max(have.bytes, rule.least())
		if err := rule.size(have.bytes); err != nil {
			return err
		}
		total += rule.bytes
	}
	if total > budget {
		return fmt.Errorf("rules: SharedBytes %d, must be at least %d for the rules that state no size", budget, total)
	}
	return nil
}

// size makes the rule one of so many bytes at most.
func (r *Rule) size(bytes int) (err error) {
	r.Keys, r.FalseDenialRate = 0, 0
	r.counter.keys, r.counter.rate, r.counter.memory = 0, 0, bytes
	if _, r.bytes, err = r.config().Size(); err != nil {
		return fmt.Errorf("%s: %w", r.Line, err)
	}
	return nil
}

// least returns the bytes below which the rule has too little to work with.
func (r *Rule) least() int { return r.need(1) }

// need returns the bytes that the rule takes for so many keys in a window.
func (r *Rule) need(keys float64) int {
	c := r.config()
	c.MemoryBytes, c.Keys = 0, int(min(max(keys, 1), math.MaxInt32))
	_, bytes, err := c.Size()
	if err != nil { // for more than there can be
		return math.MaxInt
	}
	return bytes
}

// look notes how many keys the rule has, and returns the bytes that it needs. A bucket
// does not know its keys.
func (s *share) look(r *Rule, now time.Time) int {
	stats := r.limiter.Stats()
	if window := r.at(now).UnixNano() / int64(r.Window); window != s.window {
		s.keys, s.window = s.keys*3/4, window
	}
	need, units := r.bytes, stats.Admitted+stats.Denied
	outside := stats.OutsidePlan && units != s.units // or else it tells of the last time that requests came
	if units != s.units {
		s.units, s.keys = units, max(s.keys, stats.DistinctKeys, stats.PreviousDistinctKeys)
	}
	if r.Algorithm != sketchlimit.TokenBucket {
		need = r.need(s.keys * 4 / 3)
	}
	if outside {
		need = max(need, 2*r.bytes)
	}
	return need
}

// Adapt moves the memory of [Options.SharedBytes] to rules that need more than they
// have, from rules that need less than half of what they have. Call it about once a
// minute; it reads the counts of all rules that share, which takes milliseconds for
// each MiB.
//
// No count is lost: a rule's former counts stay until they have left its window, and
// only then is their memory there for others. So a large move takes several calls,
// windows apart. It also lets go of counts that limits and sizes before a reload have
// left.
func (r *Rules) Adapt() error {
	r.change.Lock()
	defer r.change.Unlock()
	current, now := r.current.Load(), r.options.Clock()
	for rule := range current.counting() {
		if formers := rule.formers.Load(); formers != nil && rule.live(now) == nil {
			rule.formers.CompareAndSwap(formers, nil)
		}
	}
	shares, changed := r.shares, false
	if r.options.SharedBytes > 0 {
		shares, changed = r.move(current, now)
	}
	if !changed && !r.renew(current, now) {
		return nil
	}
	return r.become(r.texts, shares, current)
}

// renew finds a rule whose limiter has had a shape that is for another limit for long
// enough. It is to have one of its own, if there is memory for both meanwhile.
func (r *Rules) renew(s *set, now time.Time) bool {
	free, shared := r.options.MaxMemoryBytes-s.bytes(), r.options.SharedBytes
	for _, rule := range s.rules {
		if rule.Shared {
			shared -= rule.bytes + rule.formerBytes()
		}
	}
	for _, rule := range s.rules {
		if rule.limiter == nil || rule.live(now) != nil || !rule.due(now) {
			continue
		}
		_, bytes, err := rule.config().Size()
		if rule.renews = err == nil && bytes <= free && (!rule.Shared || r.options.SharedBytes == 0 || bytes <= shared); rule.renews {
			return true
		}
	}
	return false
}

// mover is a rule whose share may change.
type mover struct {
	*Rule
	need int
}

// move returns the shares that the rules are to have, and whether these are others than
// they have.
func (r *Rules) move(s *set, now time.Time) (shares map[place]*share, changed bool) {
	shares, free := map[place]*share{}, r.options.SharedBytes
	var movers []mover
	for _, rule := range s.rules {
		if !rule.Shared {
			continue
		}
		have := r.shares[rule.counter.place]
		need, live := have.look(rule, now), rule.live(now)
		next := *have
		shares[rule.counter.place] = &next
		free -= rule.bytes
		for _, f := range live {
			free -= f.bytes
		}
		if len(live) == 0 {
			movers = append(movers, mover{rule, need})
		}
	}
	slices.SortStableFunc(movers, func(a, b mover) int { // who lacks most, first
		return cmp.Compare(float64(b.need)/float64(b.bytes), float64(a.need)/float64(a.bytes))
	})
	take := func(m mover, bytes int) {
		shares[m.counter.place].bytes, changed = bytes, true
		free -= bytes
	}
	lack := -free
	for _, m := range movers {
		if m.need > m.bytes {
			lack += m.need
		}
	}
	for _, m := range slices.Backward(movers) { // who has most to spare, first
		if bytes := max(m.need, m.least()); lack > 0 && bytes <= m.bytes/2 && bytes <= free {
			take(m, bytes)
			lack -= m.bytes - bytes
		}
	}
	for _, m := range movers {
		if bytes := min(m.need, free); m.need > m.bytes && bytes > m.bytes/4*5 {
			take(m, bytes)
		}
	}
	return shares, changed
}

package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
)

// denied returns the chance that a new key is denied n units at a limit which the exact algorithm admits.
//
// A key's readings in the generations are independent, because their seeds are. A generation of a predecessor
// counts together with the limiter's own. So do the cells of those that share the limit, which are the same for
// all generations: what a key reads there is gone through case by case.
func (s *piece) denied(n, limit int64) float64 {
	switch {
	case s.spares || n < 1 || n > limit && !s.e.IsBucket():
		return 0
	case s.e.Evicts():
		return bucketShares(bucket{s.copy}, s.at, n, limit)
	case s.e.IsBucket():
		return bucketDenies(bucket{s.copy}, s.at, n, limit)
	}
	recent, oldest := s.noise(limit, s.ages[0].Noise().Add(s.former[0].Noise(), limit))
	over := limit - n + 1 // units of others that deny it
	if s.others == nil {
		return min(1, recent.Beside(s.weighted(oldest, 0), over)+s.mistaken(over))
	}
	share, sum := s.e.shared(), 0.0
	for units, p := range errorrate.FromShared(s.others, int(share.blocks), share.CellBits(), limit) {
		sum += p * recent.Beside(s.weighted(oldest, units[1]), over-units[0])
	}
	return min(1, sum+s.mistaken(over))
}

// deniedInWindow returns the mean of that chance over a window, in which it is highest at the end. Up to now that is this
// one, and then the one before, which stands for what is to come.
func (s *piece) deniedInWindow(n, limit int64) (mean float64) {
	if s.e.IsBucket() || s.spares || s.others != nil || n < 1 || n > limit {
		return s.denied(n, limit)
	}
	const moments = 4
	length, whole, over := s.e.Timeline.Length(), *s, limit-n+1
	current := s.ages[0].Noise().Add(s.former[0].Noise(), limit)
	before := errorrate.None()
	if len(s.ages) > 1 {
		before = s.ages[1].Noise().Add(s.former[1].Noise(), limit)
	}
	for i := range int64(moments) {
		at := length / (2 * moments) * (2*i + 1)
		begun := before.Scaled(at, length)
		if elapsed := int64(s.at.Elapsed); at <= elapsed {
			begun = current.Scaled(at, elapsed)
		}
		whole.at.Elapsed = time.Duration(at)
		recent, oldest := whole.noise(limit, begun)
		mean += min(1, recent.Beside(whole.weighted(oldest, 0), over)+s.mistaken(over)) / moments
	}
	return mean
}

// noise returns what a new key reads of others' units under a limit, if that is known of the current generation: in
// generations that count in full, and in the one that is weighted.
func (s *piece) noise(limit int64, current errorrate.Distribution) (recent errorrate.Tail, oldest errorrate.Distribution) {
	full, oldest := current, errorrate.None()
	for age := 1; age < len(s.ages); age++ {
		if age == s.e.Ring.Buffers()-1 {
			oldest = s.ages[age].Noise().Add(s.former[age].Noise(), 2*s.e.limit)
		} else {
			full = full.Add(s.ages[age].Noise().Add(s.former[age].Noise(), limit), limit)
		}
	}
	return full.OrMore(), oldest
}

// weighted returns a distribution of the oldest generation's units, beside some more, by what they weigh.
func (s *piece) weighted(oldest errorrate.Distribution, more int64) errorrate.Distribution {
	weighted := make(errorrate.Distribution, len(oldest))
	for i, c := range oldest {
		weighted[i] = errorrate.Chance{Units: s.e.Weighted(c.Units+more, s.e.Ring.Buffers()-1, s.at.Elapsed), P: c.P}
	}
	return weighted
}

// mistaken returns the chance that a new key is taken for a heavy one which has so many units.
func (s *piece) mistaken(over int64) float64 {
	n := 0
	for _, e := range s.table {
		if e != 0 && s.e.heavy.Count(e, 0)+s.e.Weighted(s.e.heavy.Count(e, 1), 1, s.at.Elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * s.e.heavy.CollisionRate()
}

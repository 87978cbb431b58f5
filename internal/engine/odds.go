package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
)

// denied returns the chance that a new key is denied n units at a limit which the exact algorithm admits.
func (s *piece) denied(n, limit int64) float64 {
	switch {
	case s.spares || n < 1 || n > limit && !s.e.IsBucket():
		return 0
	case s.e.Evicts():
		return bucketShares(bucket{s.copy}, s.at, n, limit)
	case s.e.IsBucket():
		return bucketDenies(bucket{s.copy}, s.at, n, limit)
	}
	noise := s.noise(limit)
	return noise.denies(n, noise.current, s.at.Elapsed)
}

// deniedInWindow is denied, and returns the mean of that chance over a window as well, in which it is highest at the end. Up to now
// that is this one, and then the one before, which stands for what is to come.
func (s *piece) deniedInWindow(n, limit int64) (now, mean float64) {
	if s.e.IsBucket() || s.spares || s.others != nil || n < 1 || n > limit {
		now = s.denied(n, limit)
		return now, now
	}
	noise, before := s.noise(limit), errorrate.None()
	if len(s.ages) > 1 {
		before = s.ages[1].Noise().Add(s.former[1].Noise(), limit)
	}
	const moments = 4
	length, elapsed := s.e.Timeline.Length(), int64(s.at.Elapsed)
	for i := range int64(moments) {
		at := length / (2 * moments) * (2*i + 1)
		current := before.Scaled(at, length)
		if at <= elapsed {
			current = noise.current.Scaled(at, elapsed)
		}
		mean += noise.denies(n, current, time.Duration(at)) / moments
	}
	return noise.denies(n, noise.current, s.at.Elapsed), mean
}

// noise is what a new key reads of others' units under a limit.
//
// A key's readings in the generations are independent, because their seeds are. A generation of a predecessor
// counts together with the limiter's own. So do the cells of those that share the limit, which are the same for
// all generations: what a key reads there is gone through case by case.
type noise struct {
	*piece
	under           int64
	current, recent errorrate.Distribution // of the current generation, and of others that count in full
	oldest          errorrate.Distribution // of the one that is weighted
}

func (s *piece) noise(limit int64) noise {
	all := noise{s, limit, s.ages[0].Noise().Add(s.former[0].Noise(), limit), errorrate.None(), errorrate.None()}
	for age := 1; age < len(s.ages); age++ {
		if age == s.e.Ring.Buffers()-1 {
			all.oldest = s.ages[age].Noise().Add(s.former[age].Noise(), 2*s.e.Limit)
		} else {
			all.recent = all.recent.Add(s.ages[age].Noise().Add(s.former[age].Noise(), limit), limit)
		}
	}
	return all
}

// denies returns the chance that a new key is denied n units at a time in the generation, if that is what it reads of the
// current one.
func (s *noise) denies(n int64, current errorrate.Distribution, elapsed time.Duration) float64 {
	recent, over := s.recent.Add(current, s.under).OrMore(), s.under-n+1 // units of others that deny it
	if s.others == nil {
		return min(1, recent.Beside(s.weighted(s.oldest, 0, elapsed), over)+s.mistaken(over, elapsed))
	}
	share, sum := s.e.shared(), 0.0
	for units, p := range errorrate.FromShared(s.others, int(share.blocks), share.CellBits(), s.under) {
		sum += p * recent.Beside(s.weighted(s.oldest, units[1], elapsed), over-units[0])
	}
	return min(1, sum+s.mistaken(over, elapsed))
}

// weighted returns a distribution of the oldest generation's units, beside some more, by what they weigh.
func (s *piece) weighted(oldest errorrate.Distribution, more int64, elapsed time.Duration) errorrate.Distribution {
	weighted := make(errorrate.Distribution, len(oldest))
	for i, c := range oldest {
		weighted[i] = errorrate.Chance{Units: s.e.Weighted(c.Units+more, s.e.Ring.Buffers()-1, elapsed), P: c.P}
	}
	return weighted
}

// mistaken returns the chance that a new key is taken for a heavy one which has so many units.
func (s *piece) mistaken(over int64, elapsed time.Duration) float64 {
	n := 0
	for _, e := range s.table {
		if e != 0 && s.e.heavy.Count(e, 0)+s.e.Weighted(s.e.heavy.Count(e, 1), 1, elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * s.e.heavy.CollisionRate()
}

package errorrate

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Unseen is a copy of what decides on an unseen key in a shard: its counters in a window.
type Unseen struct {
	Rule   *spec.Rule
	At     rotating.Position
	Ages   []Generation
	Former []Generation       // the same of a predecessor, or as many that are missing
	Table  *heavyhitter.Table // of heavy hitters, of these words
	Words  []uint64

	// Others are the counters of those that share the limit, by age, in so many blocks
	// and of so many bits; nil if nobody does.
	Others      [][]uint64
	Blocks      int
	CounterBits int
}

// Denied returns the chance that an unseen key is denied n units at a limit which the
// exact algorithm admits.
func (u *Unseen) Denied(n, limit int64) float64 {
	if n < 1 || n > limit {
		return 0
	}
	noise := u.noise(limit)
	return noise.denies(n, noise.current, u.At.Elapsed)
}

// DeniedInWindow is Denied, and returns the mean of that chance over a window as well,
// in which it is highest at the end. Up to now that is this one, and then the one
// before, which stands for what is to come.
func (u *Unseen) DeniedInWindow(n, limit int64) (now, mean float64) {
	if u.Others != nil || n < 1 || n > limit {
		now = u.Denied(n, limit)
		return now, now
	}
	noise, before := u.noise(limit), None()
	if len(u.Ages) > 1 {
		before = u.Ages[1].Noise().Add(u.Former[1].Noise(), limit)
	}
	const moments = 4
	length, elapsed := u.Rule.Timeline.Length(), int64(u.At.Elapsed)
	for i := range int64(moments) {
		at := length / (2 * moments) * (2*i + 1)
		current := before.Scaled(at, length)
		if at <= elapsed {
			current = noise.current.Scaled(at, elapsed)
		}
		mean += noise.denies(n, current, time.Duration(at)) / moments
	}
	return noise.denies(n, noise.current, u.At.Elapsed), mean
}

// noise is what an unseen key reads of others' units under a limit.
//
// A key's readings in the generations are independent, because their seeds are. A
// generation of a predecessor counts together with the limiter's own. So do the
// counters of those that share the limit, which are the same for all generations: what
// a key reads there is gone through case by case.
type noise struct {
	*Unseen
	limit           int64
	current, recent Distribution // of the current generation, and of others that count in full
	oldest          Distribution // of the one that is weighted
}

func (u *Unseen) noise(limit int64) noise {
	all := noise{u, limit, u.Ages[0].Noise().Add(u.Former[0].Noise(), limit), None(), None()}
	for age := 1; age < len(u.Ages); age++ {
		if age == u.Rule.Ring.Buffers()-1 {
			all.oldest = u.Ages[age].Noise().Add(u.Former[age].Noise(), 2*u.Rule.Limit)
		} else {
			all.recent = all.recent.Add(u.Ages[age].Noise().Add(u.Former[age].Noise(), limit), limit)
		}
	}
	return all
}

// denies returns the chance that an unseen key is denied n units at a time in the
// generation, if that is what it reads of the current one.
func (s *noise) denies(n int64, current Distribution, elapsed time.Duration) float64 {
	recent, over := s.recent.Add(current, s.limit).OrMore(), s.limit-n+1 // units of others that deny it
	if s.Others == nil {
		return min(1, recent.Beside(s.weighted(s.oldest, 0, elapsed), over)+s.entryCollision(over, elapsed))
	}
	sum := 0.0
	for units, p := range FromShared(s.Others, s.Blocks, s.CounterBits, s.limit) {
		sum += p * recent.Beside(s.weighted(s.oldest, units[1], elapsed), over-units[0])
	}
	return min(1, sum+s.entryCollision(over, elapsed))
}

// weighted returns a distribution of the oldest generation's units, beside some more,
// by what they weigh.
func (u *Unseen) weighted(oldest Distribution, more int64, elapsed time.Duration) Distribution {
	weighted := make(Distribution, len(oldest))
	for i, c := range oldest {
		weighted[i] = Chance{Units: u.Rule.Weighted(c.Units+more, u.Rule.Ring.Buffers()-1, elapsed), P: c.P}
	}
	return weighted
}

// entryCollision returns the chance that an unseen key is taken for a heavy hitter
// which has so many units.
func (u *Unseen) entryCollision(over int64, elapsed time.Duration) float64 {
	n := 0
	for _, e := range u.Words {
		if e != 0 && u.Table.Count(e, 0)+u.Rule.Weighted(u.Table.Count(e, 1), 1, elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * u.Table.CollisionRate()
}

// UnseenBucket is a copy of what decides on an unseen key in a shard of a token bucket:
// the words of its table, and the least time that any key has.
type UnseenBucket struct {
	Rule  *spec.Rule
	At    rotating.Position
	Times *timetable.Layout
	Words []uint64
	Floor uint32
}

// Denied returns the chance that an unseen key is denied n units at a limit: it finds
// no place, or shares the entry of a key that has used its own.
func (u *UnseenBucket) Denied(n, limit int64) float64 {
	if n < 1 || n > u.Rule.Bucket.Most(limit, u.Rule.Limit) {
		return 0
	}
	refused := 0.0
	if !u.Rule.Evicts() {
		ticks, _ := u.Rule.Bucket.Ticks(u.At.Elapsed)
		refused = timetable.Refused(u.Times.Use(u.Words, uint32(ticks), 0).Full, u.Times.Lines())
	}
	return refused + (1-refused)*u.Shared(n, limit)
}

// Shared returns the chance that an unseen key shares an entry that denies it so.
func (u *UnseenBucket) Shared(n, limit int64) float64 {
	b := &u.Rule.Bucket
	most := b.Most(limit, u.Rule.Limit)
	if n < 1 || n > most {
		return 0
	}
	ticks, _ := b.Ticks(u.At.Elapsed)
	beyond := int64(ticks) + b.Flows(most-n, limit, u.Rule.Limit)
	if int64(u.Floor) > beyond {
		return 1
	}
	used := u.Times.Use(u.Words, uint32(ticks), uint32(min(beyond, math.MaxUint32))).Later
	return timetable.Shared(float64(used), float64(u.Times.Lines()), u.Times.Entries())
}
